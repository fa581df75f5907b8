"""Keeps every asyncio task: referenced while it runs, its error logged, cancelled at shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from cluster_common.transport.logs import get_logger

log = get_logger()


class TaskKeeper:
    """Owner of a part's background tasks. All methods belong to the loop's thread."""

    def __init__(self, part: str) -> None:
        self._part = part
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Runs `work` in the background; after `close` it is refused (the coroutine is closed)."""
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._part} is closed, {name} was not started")
        task = asyncio.get_running_loop().create_task(work, name=f"{self._part}:{name}")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("task_failed", task=task.get_name(), error=repr(error), exc_info=error)

    async def close(self) -> None:
        """Cancels all tasks and waits until each has ended."""
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
