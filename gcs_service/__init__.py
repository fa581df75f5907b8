"""The GCS: membership, placement groups, detached actors, KV, jobs, demand; one per cluster."""

import cluster_common.transport as _  # noqa: F401 - before anything imports grpc: quiets it
