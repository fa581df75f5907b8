"""What must be equal for two tasks to share leases, with the lease request they would send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster_api.v1 import agent_pb2 as pb


def _no_pool() -> None:
    return None


class SchedulingKey:
    """A prepared lease request without an id; equal requests have equal `digest`."""

    __slots__ = ("_digest", "pool", "request")

    def __init__(self, request: pb.LeaseRequest) -> None:
        self.request = request
        self._digest: bytes | None = None
        self.pool: Callable[[], Any] = _no_pool
        """The I/O thread's pool for this key, looked up once; a weak reference.

        Functions of the user's modules keep their keys when a connection ends: it must not live on.
        """

    @property
    def digest(self) -> bytes:
        """What equal requests have in common. Actors never ask for it."""
        if self._digest is None:
            unnamed = pb.LeaseRequest()
            unnamed.CopyFrom(self.request)
            unnamed.ClearField("name")
            self._digest = unnamed.SerializeToString(deterministic=True)
        return self._digest

    def lease_request(self, lease_id: bytes) -> pb.LeaseRequest:
        """A request of its own for one lease."""
        request = pb.LeaseRequest()
        request.CopyFrom(self.request)
        request.lease_id = lease_id
        return request
