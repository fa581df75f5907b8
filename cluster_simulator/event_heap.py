"""The one heap of events. Time is an integer of microseconds and moves only here."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from cluster_simulator import limits


class EventHeap:
    """Events in order of time, then of their making. Nothing is removed: stale ones look away."""

    def __init__(self) -> None:
        self.now_us = 0
        self.count = 0
        self._sequence = 0
        self._heap: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._instant = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def now_ms(self) -> int:
        """The cores' unit."""
        return self.now_us // 1_000

    def at(self, at_us: int, call: Callable[..., object], *args: Any) -> None:
        """Calls at a time; one that has passed means now, behind what is due now."""
        self._sequence += 1
        heapq.heappush(self._heap, (max(at_us, self.now_us), self._sequence, call, args))

    def after(self, delay_us: int, call: Callable[..., object], *args: Any) -> None:
        """Calls after a delay."""
        self.at(self.now_us + delay_us, call, *args)

    def run_until(self, end_us: int, between: Callable[[], None] | None, every: int) -> None:
        """Events up to `end_us`; `between` is called after each `every` events."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            at_us, _, call, args = heapq.heappop(heap)
            if at_us > self.now_us:
                self.now_us = at_us
                self._instant = 0
            self._instant += 1
            self.count += 1
            assert self._instant < limits.EVENTS_PER_INSTANT_MAX, "time stands still"
            assert self.count < limits.EVENTS_MAX, "the run does not end"
            call(*args)
            if between is not None and self.count % every == 0:
                between()
        self.now_us = max(self.now_us, end_us)
