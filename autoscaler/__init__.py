"""A reference autoscaler: reads demand from the GCS, buys and returns nodes through a provider."""

import cluster_common.transport as _  # noqa: F401 - before anything imports grpc: quiets it
