"""A slow sync: every snapshot arrives some time after it was made, with the numbers of then.

One timer for the whole fleet; snapshots leave in the order in which they were made.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class HeldSnapshots:
    """Snapshots on their way.

    Args:
        delay_s: how late each one is.
    """

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()

    def hold(self, send: Callable[[], None]) -> None:
        """Calls `send` when the time is over."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._delay_s
        if not self._waiting:
            loop.call_at(due_s, self._release)
        self._waiting.append((due_s, send))

    def _release(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and self._waiting[0][0] <= loop.time():
            _, send = self._waiting.popleft()
            send()
        if self._waiting:
            loop.call_at(self._waiting[0][0], self._release)
