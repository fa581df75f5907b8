"""What owners would ask for if they had more requests open: demand, though no request waits.

An owner keeps few requests of one kind open, however many tasks it has. Each request says how many
more there would be, after this one; so a task moves from this count to the queue in one step.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cluster_api.v1 import agent_pb2 as a
from raylet_agent import limits
from raylet_agent.core.shape import Shape


class Backlog(msgspec.Struct):
    """One kind of work of one owner.

    Attributes:
        request: the newest of its requests.
        since_version: of the first demand report that counted some of it, without a break.
    """

    request: a.LeaseRequest
    shape: Shape
    count: int
    since_version: int


class Backlogs:
    """Counts by owner and the owner's key."""

    def __init__(self) -> None:
        self._owners: dict[bytes, dict[int, Backlog]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def since_version(self, owner_id: bytes, key: int) -> int:
        """Since which report some of it counts; 0: none of it does."""
        row = self._owners.get(owner_id, {}).get(key)
        return 0 if row is None else row.since_version

    def told(
        self, owner_id: bytes, request: a.LeaseRequest, shape: Shape, next_version: int
    ) -> bool:
        """The newest count of one kind; whether demand changed by it.

        Beyond the limit of kinds a new one is left out of demand.
        """
        key = request.backlog.key
        count = min(request.backlog.count, limits.BACKLOG_COUNT_MAX)
        rows = self._owners.get(owner_id, {})
        row = rows.get(key)
        if row is None:
            if not count or self._count >= limits.BACKLOGS_MAX:
                return False
            rows[key] = Backlog(request, shape, count, next_version)
            self._owners[owner_id] = rows
            self._count += 1
            return True
        if row.count == count and row.shape == shape:
            return False
        row.request, row.shape, row.count = request, shape, count
        if not count:
            self._drop(owner_id, key)
        return True

    def owner_gone(self, owner_id: bytes) -> bool:
        """The owner ended, or has nothing here any more; whether demand changed by it."""
        rows = self._owners.pop(owner_id, {})
        self._count -= len(rows)
        return bool(rows)

    def rows(self) -> Iterator[Backlog]:
        """All of them, by owner in order of arrival."""
        for rows in self._owners.values():
            yield from rows.values()

    def _drop(self, owner_id: bytes, key: int) -> None:
        rows = self._owners[owner_id]
        del rows[key]
        self._count -= 1
        if not rows:
            del self._owners[owner_id]
