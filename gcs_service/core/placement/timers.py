"""Deadlines as data: a heap of (due, what, whose).

The shell asks for the next one and calls `tick`.
"""

from __future__ import annotations

import enum
import heapq


class TimerKind(enum.Enum):
    """What a deadline is for."""

    RETRY = "retry"
    ATTEMPT = "attempt"
    REPEAT = "repeat"
    SUSPECT = "suspect"
    RESTART = "restart"


class Timers:
    """Deadlines are not removed early: whoever is called checks that the deadline still is his."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerKind, bytes]] = []
        self._count = 0

    def arm(self, due_ms: int, kind: TimerKind, owner: bytes) -> None:
        """Calls `owner` (a group's or node's id) at or after `due_ms`."""
        self._count += 1
        heapq.heappush(self._heap, (due_ms, self._count, kind, owner))

    def next_due_ms(self) -> int | None:
        """The earliest deadline."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> tuple[int, TimerKind, bytes] | None:
        """One deadline that has come: (due, kind, owner)."""
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        due_ms, _count, kind, owner = heapq.heappop(self._heap)
        return due_ms, kind, owner
