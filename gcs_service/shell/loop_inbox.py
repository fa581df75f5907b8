"""The way from the I/O loop to an executor: what one pass of the loop found wakes the thread once.

Handing over frame by frame makes the executor's thread compete with the loop for the interpreter
after each; eighteen answers that arrived together would cost eighteen changes of threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gcs_service.shell.executor import NamedExecutor


class LoopInbox:
    """Calls for an executor, in order. Belongs to the loop's thread."""

    def __init__(self, executor: NamedExecutor) -> None:
        self._executor = executor
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def post(self, call: Callable[..., Any], *args: Any) -> None:
        """Queues a call; it leaves at the end of this pass of the loop."""
        if not self._calls:
            asyncio.get_running_loop().call_soon(self.flush)
        self._calls.append((call, args))

    def flush(self) -> None:
        """Hands over what is queued, now."""
        calls, self._calls = self._calls, []
        for call, args in calls:
            self._executor.submit(call, *args)
