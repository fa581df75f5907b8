"""What must be equal for two tasks to share leases, with the lease request they would send."""

from __future__ import annotations

from typing import Any

from cluster_api.v1 import agent_pb2 as pb


class SchedulingKey:
    """A prepared lease request without an id; equal requests have equal `digest`."""

    __slots__ = ("digest", "pool", "request")

    def __init__(self, request: pb.LeaseRequest) -> None:
        self.request = request
        unnamed = pb.LeaseRequest()
        unnamed.CopyFrom(request)
        unnamed.ClearField("name")
        self.digest = unnamed.SerializeToString(deterministic=True)
        self.pool: Any = None
        """The I/O thread's pool for this key, looked up once."""

    def lease_request(self, lease_id: bytes) -> pb.LeaseRequest:
        """A request of its own for one lease."""
        request = pb.LeaseRequest()
        request.CopyFrom(self.request)
        request.lease_id = lease_id
        return request
