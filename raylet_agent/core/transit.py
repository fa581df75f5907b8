"""Requests between two nodes: sent away by the scheduler, not yet seen to have arrived.

Demand must not lose them on their way (one snapshot of the cluster counts a request as pending or
as placed, never both and never neither): the sender reports them as in transit, the receiver names
in its snapshots what it took, and the GCS, which sees both, counts each once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent import limits
from raylet_agent.core.lease import Lease


class Departure(msgspec.Struct, frozen=True, gc=False):
    """One request that waited here and was sent to `node_id`."""

    lease: Lease
    node_id: bytes
    left_ms: int


class Transit:
    """The sender's side: requests that waited here before they were sent away."""

    def __init__(self) -> None:
        self._departures: dict[bytes, Departure] = {}

    def __len__(self) -> int:
        return len(self._departures)

    def left(self, lease: Lease, node_id: bytes, now_ms: int) -> None:
        """A waiting request was sent to a node. Beyond the limit the oldest is forgotten."""
        if len(self._departures) >= limits.LEASES_IN_TRANSIT_MAX:
            del self._departures[next(iter(self._departures))]
        self._departures[lease.lease_id] = Departure(lease, node_id, now_ms)

    def came_back(self, lease_id: bytes) -> bool:
        """The request is here again; whether it was in transit."""
        return self._departures.pop(lease_id, None) is not None

    def arrived(self, lease_ids: Iterable[bytes]) -> bool:
        """A node names requests that it took; whether one of them was in transit."""
        before = len(self._departures)
        for lease_id in lease_ids:
            self._departures.pop(lease_id, None)
        return len(self._departures) < before

    def owner_gone(self, owner_id: bytes) -> bool:
        """Nobody wants what this owner asked for; whether something was in transit."""
        mine = [key for key, one in self._departures.items() if one.lease.owner_id == owner_id]
        return self.arrived(mine)

    def expire(self, now_ms: int) -> bool:
        """Forgets what was cancelled or lost on its way; whether there was something."""
        before_ms = now_ms - limits.LEASE_IN_TRANSIT_MS
        return self.arrived([k for k, one in self._departures.items() if one.left_ms <= before_ms])

    def report(self) -> list[n.LeaseInTransit]:
        """For the demand report, oldest first."""
        return [
            n.LeaseInTransit(
                lease_id=lease_id,
                node_id=one.node_id,
                resources=t.ResourceSet(amounts=one.lease.shape.needed()),
                selector=one.lease.request.selector,
            )
            for lease_id, one in self._departures.items()
        ]


class Arrivals:
    """The receiver's side: requests that came from a scheduler and took room here lately."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=limits.LEASES_TAKEN_NAMED_MAX)

    def took(self, lease_id: bytes, now_ms: int) -> None:
        """A request took its room."""
        self._recent.append((now_ms, lease_id))

    def named(self, now_ms: int) -> list[bytes]:
        """What a snapshot of this moment names."""
        while self._recent and self._recent[0][0] <= now_ms - limits.LEASE_TAKEN_NAMED_MS:
            self._recent.popleft()
        return [lease_id for _, lease_id in self._recent]
