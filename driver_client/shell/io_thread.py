"""The one I/O thread of a process: a uvloop loop that owns all streams, tables and counts.

User threads hand work over by appending to a queue and, only if the loop is not about to look
anyway, waking it (CALIBRATION section 7: one flag instead of one wake-up per call).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from cluster_common.transport.task_keeper import TaskKeeper

T = TypeVar("T")


class IoThread:
    """A started thread with a running loop. `post` and `call` are for other threads."""

    def __init__(self, name: str) -> None:
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self.keeper = TaskKeeper(name)
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._awake = False
        self._passes: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = threading.Event()
        self.closed = False
        self._calls: set[concurrent.futures.Future[Any]] = set()

    def start(self) -> None:
        """Starts the thread and waits until the loop runs."""
        self._thread.start()
        self._started.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._started.set)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def each_pass(self, work: Callable[[], None]) -> None:
        """Runs `work` (short) on the loop each time it is woken by `wake` or `post`."""
        self._passes.append(work)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def wake(self) -> None:
        """Asks for a pass; cheap when one is due anyway. Any thread."""
        if not self._awake and not self.closed:
            self._awake = True
            try:
                self.loop.call_soon_threadsafe(self._pass)
            except RuntimeError:  # the loop closed between the look and the call
                self.closed = True

    def post(self, work: Callable[..., None], *arguments: Any) -> None:
        """Runs `work(*arguments)` on the loop soon, in order. Any thread."""
        self._inbox.append((work, arguments))
        self.wake()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Runs a coroutine on the loop and waits for it. Not for the I/O thread itself.

        Raises:
            TimeoutError: `timeout_s` ran out; the coroutine is cancelled.
        """
        if self.closed:
            work.close()
            raise RuntimeError("the connection to the cluster is closed")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        self._calls.add(future)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise
        except concurrent.futures.CancelledError:
            raise RuntimeError("the connection to the cluster was closed meanwhile") from None
        finally:
            self._calls.discard(future)

    def _pass(self) -> None:
        self._awake = False
        inbox = self._inbox
        while inbox:
            work, arguments = inbox.popleft()
            work(*arguments)
        for work in self._passes:
            work()

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Runs `last`, ends all tasks, stops the loop and joins the thread.

        Not from the I/O thread.
        """

        async def finish() -> None:
            try:
                await last
            finally:
                await self.keeper.close()

        if self.closed:
            last.close()
            return
        try:
            asyncio.run_coroutine_threadsafe(finish(), self.loop).result(10)
        finally:
            self.closed = True
            for call in list(self._calls):  # other threads wait for these
                call.cancel()
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(5)
