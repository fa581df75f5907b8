"""The agent of a node: its resources (the truth), leases, bundles and worker processes."""

import cluster_common.transport as _  # noqa: F401 - before anything imports grpc: quiets it
