"""The way from executor threads back to the I/O loop: one queue, one wake-up for many outputs."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from cluster_common.transport.logs import get_logger
from gcs_service import limits

log = get_logger()

Output = tuple[Callable[..., Any], tuple[Any, ...]]


def resolve(answer: asyncio.Future[Any], result: Any, error: Exception | None = None) -> None:
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


class StallMeter:
    """How late the loop was, as seen by those who post to it; costs nothing when nobody posts.

    `recent_ns`: the worst of the present and the last window of `LOOP_STALL_WINDOW_MS`.
    """

    def __init__(self) -> None:
        self.last_ns = 0
        self.max_ns = 0
        self._window: int = 0
        self._worst = (0, 0)

    @property
    def recent_ns(self) -> int:
        """See the class."""
        self._turn(time.monotonic_ns())
        return max(self._worst)

    def note(self, posted_ns: int) -> None:
        """What was posted then is being looked at now."""
        now_ns = time.monotonic_ns()
        self._turn(now_ns)
        self.last_ns = now_ns - posted_ns
        self.max_ns = max(self.max_ns, self.last_ns)
        self._worst = (max(self._worst[0], self.last_ns), self._worst[1])

    def _turn(self, now_ns: int) -> None:
        window: int = now_ns // (limits.LOOP_STALL_WINDOW_MS * 1_000_000)
        if window != self._window:
            self._worst = (0, self._worst[0] if window == self._window + 1 else 0)
            self._window = window


class LoopBridge:
    """Runs posted calls on the loop's thread, in the order they were posted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stalls: StallMeter | None = None) -> None:
        self._loop = loop
        self._outputs: deque[Output] = deque()
        self._is_scheduled = False
        self._is_closed = False
        self._woken_ns = 0
        self.stalls = stalls or StallMeter()
        self.handled = 0

    @property
    def queue_length(self) -> int:
        """Outputs that wait."""
        return len(self._outputs)

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
        self._woken_ns = time.monotonic_ns()
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:  # the loop is closed: the service is ending
            self._is_closed = True

    def _drain(self) -> None:
        self.stalls.note(self._woken_ns)
        self._is_scheduled = False
        end_ns = time.monotonic_ns() + limits.LOOP_DRAIN_NS_MAX
        while time.monotonic_ns() < end_ns:
            if not self._outputs:
                return
            call, args = self._outputs.popleft()
            self.handled += 1
            try:
                call(*args)
            except Exception:
                log.exception("output_failed", call=repr(call))
        self._wake()
