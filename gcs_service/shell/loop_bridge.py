"""The way from executor threads back to the I/O loop: one queue, one wake-up for many outputs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from cluster_common.transport.logs import get_logger
from gcs_service import limits

log = get_logger()

Output = tuple[Callable[..., Any], tuple[Any, ...]]


def resolve(
    answer: asyncio.Future[Any], result: Any, error: Exception | None = None
) -> None:
    """The output that answers who wrote something; the journal knows it by its name."""
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)


def resolve_read(answer: asyncio.Future[Any], result: Any) -> None:
    """The output that answers who only asked: it passes while the store is lost."""
    resolve(answer, result)


class LoopBridge:
    """Runs posted calls on the loop's thread, in the order they were posted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._outputs: deque[Output] = deque()
        self._is_scheduled = False
        self._is_closed = False

    def post(self, call: Callable[..., Any], *args: Any) -> None:
        """Queues one call; from any thread."""
        self._outputs.append((call, args))
        self._wake()

    def post_many(self, outputs: Iterable[Output]) -> None:
        """Queues calls in order; from any thread."""
        self._outputs.extend(outputs)
        self._wake()

    def close(self) -> None:
        """Later posts are dropped."""
        self._is_closed = True

    def _wake(self) -> None:
        # The flag falls before the drain looks at the queue: an output that saw it set is drained.
        if self._is_scheduled or self._is_closed:
            return
        self._is_scheduled = True
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:  # the loop is closed: the service is ending
            self._is_closed = True

    def _drain(self) -> None:
        self._is_scheduled = False
        for _ in range(limits.LOOP_DRAIN_ITEMS_MAX):
            if not self._outputs:
                return
            call, args = self._outputs.popleft()
            try:
                call(*args)
            except Exception:
                log.exception("output_failed", call=repr(call))
        self._wake()
