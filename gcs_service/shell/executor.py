"""A named executor: one thread, one inbox, readable queue length and lag (DESIGN section 12)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from cluster_common.transport.logs import get_logger
from gcs_service import limits

log = get_logger()

_Item = tuple[int, Callable[..., Any], tuple[Any, ...]]


class NamedExecutor:
    """Runs submitted calls one after another.

    Args:
        name: shown in status.
        batch_ended: called in the thread when the inbox is empty or a full batch was handled.
        next_deadline_ns: monotonic time when `deadline_reached` wants to be called, None for never.
    """

    def __init__(
        self,
        name: str,
        *,
        batch_ended: Callable[[], None] | None = None,
        next_deadline_ns: Callable[[], int | None] | None = None,
        deadline_reached: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.handled = 0
        self.lag_last_ns = 0
        self.lag_max_ns = 0
        self._batch_ended = batch_ended
        self._next_deadline_ns = next_deadline_ns
        self._deadline_reached = deadline_reached
        self._inbox: SimpleQueue[_Item | None] = SimpleQueue()
        self._serving_since_ns = 0
        self._thread = threading.Thread(target=self._run, name=f"gcs-{name}", daemon=True)

    @property
    def cpu_ms(self) -> float:
        """Processor time of its thread; 0 before it runs and after it ended."""
        ident = self._thread.ident
        if ident is None or not self._thread.is_alive():
            return 0.0
        return time.clock_gettime_ns(time.pthread_getcpuclockid(ident)) / 1e6

    @property
    def queue_length(self) -> int:
        """Calls that wait."""
        return self._inbox.qsize()

    @property
    def lag_ms(self) -> float:
        """Age of the oldest unfinished call, or what the last one waited."""
        since = self._serving_since_ns
        lag_ns = time.monotonic_ns() - since if since else self.lag_last_ns
        return lag_ns / 1e6

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def submit(self, call: Callable[..., Any], *args: Any) -> None:
        """Queues a call; from any thread. Its result and its errors are its own business."""
        self._inbox.put((time.monotonic_ns(), call, args))

    def stop(self) -> None:
        """Handles what is queued, then ends the thread; waits for it."""
        if self._thread.is_alive():
            self._inbox.put(None)
            self._thread.join()

    def _run(self) -> None:
        while True:
            item = self._wait()
            if item is None:
                break
            if item and not self._serve(item):
                break
        self._close_batch()

    def _wait(self) -> _Item | tuple[()] | None:
        """The next item; an empty tuple when the deadline came first."""
        deadline_ns = self._next_deadline_ns() if self._next_deadline_ns else None
        if deadline_ns is None:
            return self._inbox.get()
        timeout_ns = deadline_ns - time.monotonic_ns()
        try:
            if timeout_ns > 0:
                return self._inbox.get(timeout=timeout_ns / 1e9)
            item = self._inbox.get_nowait()
        except Empty:
            self._guard(self._deadline_reached)
            self._close_batch()
            return ()
        # Both are due: the deadline is served too, before the batch that `item` begins.
        self._guard(self._deadline_reached)
        return item

    def _serve(self, item: _Item) -> bool:
        """Handles `item` and what waits behind it, as one batch. False: told to stop."""
        self._handle(item)
        goes_on = True
        for _ in range(limits.EXECUTOR_BATCH_ITEMS_MAX):
            if self._inbox.empty():  # this thread is the only reader
                break
            following = self._inbox.get_nowait()
            if following is None:
                goes_on = False
                break
            self._handle(following)
        self._close_batch()
        return goes_on

    def _handle(self, item: _Item) -> None:
        queued_ns, call, args = item
        self._serving_since_ns = queued_ns
        self.lag_last_ns = time.monotonic_ns() - queued_ns
        self.lag_max_ns = max(self.lag_max_ns, self.lag_last_ns)
        try:
            call(*args)
        except Exception:
            log.exception("executor_call_failed", executor=self.name)
        self.handled += 1

    def _close_batch(self) -> None:
        self._serving_since_ns = 0
        self._guard(self._batch_ended)

    def _guard(self, call: Callable[[], None] | None) -> None:
        if call is None:
            return
        try:
            call()
        except Exception:
            log.exception("executor_call_failed", executor=self.name)
