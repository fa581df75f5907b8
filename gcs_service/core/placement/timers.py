"""Deadlines as data: a heap of (due, what, whose).

The shell asks for the next one and calls `tick`.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable

from gcs_service.core.placement.limits import TIMERS_KEPT


class TimerKind(enum.Enum):
    """What a deadline is for."""

    RETRY = "retry"
    ATTEMPT = "attempt"
    REPEAT = "repeat"
    SUSPECT = "suspect"
    RESTART = "restart"


class Timers:
    """Deadlines are not removed early: whoever is called checks that the deadline still is his.

    Only when they are many, those go that nobody waits for: of owners that are gone, and those that
    were armed again. So there are at most twice as many as owners can have.

    Args:
        lives: whether there still is a group or node of this id.
    """

    def __init__(self, lives: Callable[[bytes], bool]) -> None:
        self._lives = lives
        self._heap: list[tuple[int, int, TimerKind, bytes]] = []
        self._count = 0
        self._most = TIMERS_KEPT

    def __len__(self) -> int:
        return len(self._heap)

    def arm(self, due_ms: int, kind: TimerKind, owner: bytes) -> None:
        """Calls `owner` (a group's or node's id) at or after `due_ms`."""
        self._count += 1
        heapq.heappush(self._heap, (due_ms, self._count, kind, owner))
        if len(self._heap) > self._most:
            self._compact()

    def next_due_ms(self) -> int | None:
        """The earliest deadline."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> tuple[int, TimerKind, bytes] | None:
        """One deadline that has come: (due, kind, owner)."""
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        due_ms, _count, kind, owner = heapq.heappop(self._heap)
        return due_ms, kind, owner

    def _compact(self) -> None:
        newest: dict[tuple[TimerKind, bytes], tuple[int, int, TimerKind, bytes]] = {}
        for entry in sorted(self._heap, key=lambda each: each[1]):
            # Whoever arms one just now may not be in its table yet.
            if self._lives(entry[3]) or entry[1] == self._count:
                newest[entry[2], entry[3]] = entry
        self._heap = list(newest.values())
        heapq.heapify(self._heap)
        self._most = max(TIMERS_KEPT, 2 * len(self._heap))
