"""Requests that one agent counts as demand and another has taken: they are placed, not pending.

The two agents' reports come in any order, so what a node names is kept here until the report of the
agent that had sent the request shows that it knows of its leaving. Until then the request is either
named in that report as on its way, or it is one of the count of an entry: then it is owed, which is
to say, the count is too high by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service import limits
from gcs_service.core.demand_rows import node_key

ShapeKey = tuple[str, str]
"""Resources and selector, as text in a fixed order."""


class _Taken(msgspec.Struct, frozen=True, gc=False):
    """One request. Reports `first_version` to `last_version` of the sender count it unnamed."""

    taker: bytes
    first_version: int
    last_version: int
    key: ShapeKey


class TakenRequests:
    """What nodes named, by sender and lease id."""

    def __init__(self) -> None:
        self._senders: dict[bytes, dict[bytes, _Taken]] = {}
        self._on_way: dict[bytes, dict[bytes, bytes]] = {}
        self._versions: dict[bytes, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def named(self, taker: bytes, taken: Iterable[ns.LeaseTaken]) -> None:
        """A node's newest snapshot. What it names no more has been taken all the same."""
        for one in taken:
            counted = one.counted
            sender = counted.node_id
            if not sender:
                continue
            known = self._versions.get(sender)
            on_way = self._on_way.get(sender, {})
            if known is not None and known > counted.last_version and one.lease_id not in on_way:
                continue
            rows = self._senders.setdefault(sender, {})
            self._count += one.lease_id not in rows
            key = shape_key(one.resources.amounts, one.selector.terms)
            rows[one.lease_id] = _Taken(taker, counted.first_version, counted.last_version, key)
            if self._count > limits.DEMAND_TAKEN_MAX:
                self._drop(sender, [next(iter(rows))])

    def reported(self, sender: bytes, report: ns.DemandReport) -> None:
        """A newer report: what it neither counts nor has on its way is settled."""
        on_way = {one.lease_id: one.node_id for one in report.in_transit}
        self._versions[sender] = report.version
        self._on_way[sender] = on_way
        rows = self._senders.get(sender, {})
        settled = [
            lease_id
            for lease_id, one in rows.items()
            if one.last_version < report.version and lease_id not in on_way
        ]
        self._drop(sender, settled)

    def report_gone(self, sender: bytes) -> None:
        """There is no report of it now."""
        self._versions.pop(sender, None)
        self._on_way.pop(sender, None)

    def node_gone(self, node_id: bytes) -> None:
        """Its demand is gone, and what it had taken is pending again where it is still counted."""
        self.report_gone(node_id)
        self._drop(node_id, list(self._senders.get(node_id, {})))
        for sender, rows in list(self._senders.items()):
            self._drop(sender, [key for key, one in rows.items() if one.taker == node_id])

    def arrived(self, sender: bytes, lease: ns.LeaseInTransit) -> bool:
        """Whether a request on its way is where it was sent."""
        taken = self._senders.get(sender, {}).get(lease.lease_id)
        return taken is not None and taken.taker == lease.node_id

    def owed(self, sender: bytes) -> Counter[ShapeKey]:
        """By how much the counts in the sender's newest report are too high."""
        rows = self._senders.get(sender)
        version = self._versions.get(sender)
        if not rows or version is None:
            return Counter()
        on_way = self._on_way[sender]
        return Counter(
            one.key
            for lease_id, one in rows.items()
            if one.first_version <= version <= one.last_version and lease_id not in on_way
        )

    def _drop(self, sender: bytes, lease_ids: list[bytes]) -> None:
        if not lease_ids:
            return
        rows = self._senders[sender]
        for lease_id in lease_ids:
            del rows[lease_id]
        self._count -= len(lease_ids)
        if not rows:
            del self._senders[sender]


def shape_key(amounts: Mapping[str, int], terms: Mapping[str, str]) -> ShapeKey:
    """What makes two entries of demand the same, but for being infeasible."""
    return node_key(amounts), node_key(terms)
