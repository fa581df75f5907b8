"""gRPC construction, batched streams, task keeping: what shells need to talk. No decisions."""

import os

# gRPC's core writes a line to standard error for every connection that a stopped peer closes. It
# reads its level while it is imported, so this comes before; a level that the user set stays.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
