"""Requests that wait for room: FIFO within a shape, and no shape blocks another.

A pass goes through the heads of all lines in order of arrival; a head that does not fit ends its
line for this pass only. Waiting requests are found by group, so that what becomes free in a bundle
wakes only those who wait for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping

from raylet_agent.core.lease import Lease
from raylet_agent.core.shape import Shape

Line = dict[bytes, Lease]


class LeaseQueue:
    """Lines of waiting leases by (group, shape)."""

    def __init__(self) -> None:
        self._groups: dict[bytes, dict[Shape, Line]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, lease: Lease) -> None:
        """Puts a lease at the end of its line."""
        line = self._groups.setdefault(lease.shape.group_id, {}).setdefault(lease.shape, {})
        assert lease.lease_id not in line, f"lease {lease.lease_id.hex()} waits already"
        line[lease.lease_id] = lease
        self._count += 1

    def remove(self, lease: Lease) -> None:
        """Takes a waiting lease out."""
        shapes = self._groups[lease.shape.group_id]
        line = shapes[lease.shape]
        del line[lease.lease_id]
        self._count -= 1
        if not line:
            del shapes[lease.shape]
            if not shapes:
                del self._groups[lease.shape.group_id]

    def of_group(self, group_id: bytes) -> list[Lease]:
        """All that wait for bundles of one group (b"": for none), oldest first."""
        lines = self._groups.get(group_id, {}).values()
        return sorted((x for line in lines for x in line.values()), key=lambda x: x.sequence)

    def lines(self, group_id: bytes = b"") -> Iterable[tuple[Shape, Line]]:
        """Lines of one group, in order of creation."""
        return list(self._groups.get(group_id, {}).items())

    def bound_to(self, node_id: bytes) -> list[Lease]:
        """What waits outside groups with an affinity to one node, line by line."""
        lines = self._groups.get(b"", {}).items()
        return [x for shape, line in lines if shape.affinity == node_id for x in line.values()]

    def wake(
        self,
        group_id: bytes,
        freed: Mapping[str, int] | None,
        attempt: Callable[[Lease], bool],
    ) -> None:
        """One pass over the lines of a group.

        Args:
            group_id: whose lines (b"": requests outside groups).
            freed: what became free; lines that need none of it are skipped. None: anything may fit.
            attempt: places a lease and takes it out of the queue, or returns False.
        """
        heads: list[tuple[int, bytes]] = []
        by_head: dict[bytes, Line] = {}
        for shape, line in self._groups.get(group_id, {}).items():
            if freed is not None and shape.need and not any(n in freed for n, _ in shape.need):
                continue
            head = next(iter(line.values()))
            heads.append((head.sequence, head.lease_id))
            by_head[head.lease_id] = line
        heapq.heapify(heads)
        while heads:
            _, lease_id = heapq.heappop(heads)
            line = by_head.pop(lease_id)
            if not attempt(line[lease_id]):
                continue
            assert lease_id not in line, "a placed lease still waits"
            if line:
                head = next(iter(line.values()))
                heapq.heappush(heads, (head.sequence, head.lease_id))
                by_head[head.lease_id] = line
