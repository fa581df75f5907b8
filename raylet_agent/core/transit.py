"""Requests between two nodes: sent away by the scheduler, not yet seen to have arrived.

One snapshot of the cluster counts a request as pending or as placed, never both and never neither,
in whatever order the reports of the two agents reach the GCS. So

- the sender reports as in transit what it sent away, until the receiver names it;
- the receiver names in its snapshots what it took, with the reports of the sender in which the
  request was only one of a count. While such a report is the newest one of the sender, the GCS
  takes the request off that count (FIELD_REPORTS O-23).

The second is for a receiver that is faster than the sender: the sender tells the owner where to ask
at once, and its report may be written long after the receiver's snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_common import labels as label_rules
from raylet_agent import limits
from raylet_agent.core.lease import Lease
from raylet_agent.core.shape import Shape


class Departure(msgspec.Struct, frozen=True, gc=False):
    """One request that was demand here and was sent to `node_id`.

    Attributes:
        last_version: of the demand reports made before it left.
    """

    lease: Lease
    node_id: bytes
    left_ms: int
    last_version: int


class Transit:
    """The sender's side: requests that were demand here before they were sent away."""

    def __init__(self) -> None:
        self._departures: dict[bytes, Departure] = {}

    def __len__(self) -> int:
        return len(self._departures)

    def get(self, lease_id: bytes) -> Departure | None:
        """A request on its way."""
        return self._departures.get(lease_id)

    def left(self, departure: Departure) -> None:
        """A request was sent to a node. Beyond the limit the oldest is forgotten."""
        if len(self._departures) >= limits.LEASES_IN_TRANSIT_MAX:
            del self._departures[next(iter(self._departures))]
        self._departures[departure.lease.lease_id] = departure

    def came_back(self, lease_id: bytes) -> Departure | None:
        """The request is here again, or wanted no more; how it had left."""
        return self._departures.pop(lease_id, None)

    def arrived(self, node_id: bytes, lease_ids: Iterable[bytes]) -> bool:
        """A node names requests that it took; whether one of them was on its way there."""
        before = len(self._departures)
        for lease_id in lease_ids:
            departure = self._departures.get(lease_id)
            if departure is not None and departure.node_id == node_id:
                del self._departures[lease_id]
        return len(self._departures) < before

    def owner_gone(self, owner_id: bytes) -> bool:
        """Nobody wants what this owner asked for; whether something was in transit."""
        return self._drop([k for k, x in self._departures.items() if x.lease.owner_id == owner_id])

    def expire(self, now_ms: int) -> bool:
        """Forgets what was lost on its way; whether there was something."""
        before_ms = now_ms - limits.LEASE_IN_TRANSIT_MS
        return self._drop([k for k, x in self._departures.items() if x.left_ms <= before_ms])

    def _drop(self, lease_ids: list[bytes]) -> bool:
        for lease_id in lease_ids:
            del self._departures[lease_id]
        return bool(lease_ids)

    def report(self) -> list[n.LeaseInTransit]:
        """For the demand report, oldest first."""
        return [
            n.LeaseInTransit(
                lease_id=lease_id,
                node_id=one.node_id,
                resources=t.ResourceSet(amounts=one.lease.shape.needed()),
                selector=demand_selector(one.lease.shape, one.lease.request.selector),
            )
            for lease_id, one in self._departures.items()
        ]


class Arrivals:
    """The receiver's side: requests that were another agent's demand and took room here lately."""

    def __init__(self) -> None:
        self._recent: dict[bytes, tuple[int, n.LeaseTaken]] = {}

    def took(self, lease: Lease, now_ms: int) -> None:
        """A request took its room."""
        request = lease.request
        if not request.HasField("counted"):
            return
        taken = n.LeaseTaken(
            lease_id=lease.lease_id,
            counted=request.counted,
            resources=t.ResourceSet(amounts=lease.shape.needed()),
            selector=demand_selector(lease.shape, request.selector),
        )
        self._name(taken, now_ms)

    def withdrawn(self, lease_id: bytes, now_ms: int) -> None:
        """A request that may be on its way here is not wanted any more."""
        self._name(n.LeaseTaken(lease_id=lease_id), now_ms)

    def sent_away(self, lease_id: bytes) -> None:
        """A request that took room goes back to the scheduler."""
        self._recent.pop(lease_id, None)

    def named(self, now_ms: int) -> list[n.LeaseTaken]:
        """What a snapshot of this moment names."""
        before_ms = now_ms - limits.LEASE_TAKEN_NAMED_MS
        for lease_id, (took_ms, _) in list(self._recent.items()):
            if took_ms > before_ms:
                break
            del self._recent[lease_id]
        return [taken for _, taken in self._recent.values()]

    def _name(self, taken: n.LeaseTaken, now_ms: int) -> None:
        self._recent.pop(taken.lease_id, None)
        if len(self._recent) >= limits.LEASES_TAKEN_NAMED_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent[taken.lease_id] = (now_ms, taken)


def demand_selector(shape: Shape, selector: t.LabelSelector) -> t.LabelSelector:
    """The selector of its demand; work bound to one node says so, for no other node can help."""
    if not shape.affinity or shape.affinity_soft:
        return selector
    return t.LabelSelector(
        terms={**selector.terms, label_rules.NODE_ID_LABEL: shape.affinity.hex()}
    )
