"""Deadlines as data: set by the core, told back to it by the shell. One-shot; nothing ticks."""

from __future__ import annotations

import heapq

from raylet_agent import limits

TimerKey = tuple[str, bytes]
"""(what it is for, about whom)."""


class Timers:
    """At most one deadline per key; setting it again moves it."""

    def __init__(self) -> None:
        self._due_ms: dict[TimerKey, int] = {}
        self._heap: list[tuple[int, TimerKey]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, kind: str, about: bytes, due_ms: int) -> None:
        """Sets or moves a deadline."""
        key = (kind, about)
        self._due_ms[key] = due_ms
        heapq.heappush(self._heap, (due_ms, key))
        if len(self._heap) > limits.DEADLINES_SHARE * max(len(self._due_ms), limits.DEADLINES_FEW):
            self._heap = [(due_ms, key) for key, due_ms in self._due_ms.items()]
            heapq.heapify(self._heap)

    def set_if_absent(self, kind: str, about: bytes, due_ms: int) -> None:
        """Sets a deadline unless one is running."""
        if (kind, about) not in self._due_ms:
            self.set(kind, about, due_ms)

    def cancel(self, kind: str, about: bytes) -> None:
        """Forgets a deadline, if there is one."""
        self._due_ms.pop((kind, about), None)

    def next_ms(self) -> int | None:
        """The earliest deadline."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> list[TimerKey]:
        """Keys whose deadline has come, earliest first; they are no longer set."""
        due: list[TimerKey] = []
        while True:
            self._drop_stale()
            if not self._heap or self._heap[0][0] > now_ms:
                return due
            _, key = heapq.heappop(self._heap)
            del self._due_ms[key]
            due.append(key)

    def _drop_stale(self) -> None:
        while self._heap and self._due_ms.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
