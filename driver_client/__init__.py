"""The runtime inside drivers and workers: references, tasks, owned actors, calls."""

import cluster_common.transport as _  # noqa: F401 - before anything imports grpc: quiets it
