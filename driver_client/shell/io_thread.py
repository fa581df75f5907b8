"""The one I/O thread of a process: a uvloop loop that owns all streams, tables and counts.

User threads hand work over by appending to a queue and, only if the loop is not about to look
anyway, waking it (CALIBRATION section 7: one flag instead of one wake-up per call).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from cluster_common.transport.task_keeper import TaskKeeper
from driver_client import limits
from driver_client.shell.loop_thread import take_loop_thread

T = TypeVar("T")


class IoThread:
    """A started thread with a running loop. `post` and `call` are for other threads."""

    def __init__(self, name: str) -> None:
        self._thread = take_loop_thread(name)
        self.loop: asyncio.AbstractEventLoop = self._thread.loop
        self.keeper = TaskKeeper(name)
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._awake = False
        self._passes: list[Callable[[], None]] = []
        self.closed = False
        self._calls: set[concurrent.futures.Future[Any]] = set()

    def start(self) -> None:
        """Starts the thread and waits until the loop runs."""
        self._thread.start()

    def each_pass(self, work: Callable[[], None]) -> None:
        """Runs `work` (short) on the loop each time it is woken by `wake` or `post`."""
        self._passes.append(work)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return self._thread.is_current

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
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except BaseException:  # an interrupt, most likely
            work.close()
            raise
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
        """Runs `last`, ends all tasks and gives the thread up. Not from the I/O thread."""

        async def finish() -> None:
            try:
                await last
            finally:
                await self.keeper.close()

        if self.closed:
            last.close()
            return
        try:
            asyncio.run_coroutine_threadsafe(finish(), self.loop).result(limits.CLOSE_S_MAX)
        finally:
            self.closed = True
            for call in list(self._calls):  # other threads wait for these
                call.cancel()
            self._thread.give_up()
