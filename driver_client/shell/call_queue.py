"""Calls waiting for the worker's main thread.

Filled by the I/O thread, which may also take them back.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from driver_client.shell.function_store import LocalFunction
from driver_client.shell.peer_stream import PeerStream

Call = tuple[PeerStream, int, LocalFunction, bytes, Any]
"""(caller's stream, task sequence, function, payload, CallDetail or None)"""

Work = Call | Callable[[], None] | None
"""A Call, or a callable of the worker itself (constructor, exit), or None: the end."""


class CallQueue:
    """One consumer, one producer."""

    def __init__(self) -> None:
        self._items: deque[Work] = deque()
        self._sleeping = False
        self._gate = threading.Lock()
        self._gate.acquire()
        self.started_ns = 0
        """When the running call began; 0: none runs."""

    def __len__(self) -> int:
        return len(self._items)

    def extend(self, items: Sequence[Work]) -> None:
        """Adds work; wakes the consumer if it sleeps. I/O thread."""
        self._items.extend(items)
        self._wake()

    def _wake(self) -> None:
        if self._sleeping:
            self._sleeping = False
            if self._gate.locked():
                self._gate.release()

    def take(self) -> Work:
        """The next piece of work; blocks. Main thread."""
        items = self._items
        while True:
            try:
                return items.popleft()
            except IndexError:
                self._sleeping = True
                if items:
                    self._sleeping = False
                    continue
                self._gate.acquire()

    def take_back(self) -> list[Call]:
        """Everything not started, for the owners to run elsewhere. I/O thread."""
        taken: list[Call] = []
        items = self._items
        while items:
            try:
                item = items.pop()
            except IndexError:
                break
            if item is None or callable(item):
                items.append(item)
                self._wake()  # the consumer may have looked just while it was out
                break
            taken.append(item)
        taken.reverse()
        return taken

    def drop(self, stream: PeerStream) -> None:
        """Forgets what a caller queued that is gone. I/O thread."""
        kept = [item for item in self.take_back() if item[0] is not stream]
        self.extend(kept)

    def running_ms(self) -> float:
        """For how long the present call has been running; 0: none runs."""
        started = self.started_ns
        return (time.monotonic_ns() - started) / 1e6 if started else 0.0
