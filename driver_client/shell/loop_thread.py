"""Threads with a running loop, and the one that waits for the next connection of this process.

gRPC keeps every loop it ever served, a quarter of a MiB each, for as long as any of its channels
lives. A process that connects again and again therefore goes on with the loop it has.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import uvloop

from driver_client import limits


class _Loop(uvloop.Loop):
    """A loop on which timers of a connection that ended do nothing."""

    connection = 0
    """Counts the connections that used this loop."""

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """As usual; `call_at` comes here too."""
        arguments = (self.connection, callback, args)
        return super().call_later(delay, self._due, *arguments, context=context)

    def _due(self, connection: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        if connection == self.connection:
            callback(*args)


class LoopThread:
    """One thread and its loop."""

    def __init__(self, name: str) -> None:
        self.loop = _Loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    @property
    def is_usable(self) -> bool:
        """Whether it runs; after a fork it does not, in the child."""
        return self._pid == os.getpid() and self._thread.is_alive()

    def start(self) -> None:
        """Returns when the loop runs. Nothing happens when it does."""
        if self._thread.is_alive():
            return
        started = threading.Event()
        self.loop.call_soon(started.set)
        self._thread.start()
        started.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def give_up(self) -> None:
        """Its user is gone: it waits for the next one, or ends when another one waits already."""
        try:
            asyncio.run_coroutine_threadsafe(self._cleared(), self.loop).result(
                limits.LOOP_CLEARED_MAX_S
            )
        except TimeoutError:
            self.stop()  # something does not let itself be cancelled
            return
        if not _waiting.offer(self):
            self.stop()

    async def _cleared(self) -> None:
        """Whatever the last user left on the loop ends."""
        self.loop.connection += 1
        own = asyncio.current_task()
        rest = [task for task in asyncio.all_tasks() if task is not own]
        if rest:
            # Calls that gRPC still takes leave of end by themselves; cancelled, it prints them.
            _, pending = await asyncio.wait(rest, timeout=limits.LOOP_SETTLED_MAX_S)
            rest = list(pending)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def stop(self) -> None:
        """Ends the loop and the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(limits.LOOP_JOINED_MAX_S)


class _Waiting:
    """At most one thread without a user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None

    def offer(self, thread: LoopThread) -> bool:
        """Keeps it unless there is one."""
        with self._lock:
            if self._thread is not None and self._thread.is_usable:
                return False
            self._thread = thread
            return True

    def take(self) -> LoopThread | None:
        """The one that waits."""
        with self._lock:
            thread, self._thread = self._thread, None
        return thread if thread is not None and thread.is_usable else None


_waiting = _Waiting()


def take_loop_thread(name: str) -> LoopThread:
    """The thread of the connection before, or a new one of this name."""
    return _waiting.take() or LoopThread(name)


def end_waiting_thread() -> None:
    """At the end of the process: no thread of ours runs when the interpreter is taken down."""
    thread = _waiting.take()
    if thread is not None:
        thread.stop()
