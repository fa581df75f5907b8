"""One loop serves a process's connections one after another; nothing of the last one goes on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from driver_client.shell.io_thread import IoThread
from driver_client.shell.loop_thread import end_waiting_thread


async def nothing() -> None:
    return


def opened() -> IoThread:
    io = IoThread("test-io")
    io.start()
    return io


@pytest.fixture(autouse=True)
def no_thread_waits():
    end_waiting_thread()
    yield
    end_waiting_thread()


def test_the_next_connection_goes_on_with_the_loop_of_the_last() -> None:
    first = opened()
    first.close(nothing())
    second = opened()
    assert second.loop is first.loop
    assert second.call(asyncio.sleep(0, "it runs")) == "it runs"
    second.close(nothing())


def test_of_two_connections_that_end_one_loop_is_kept() -> None:
    first, second = opened(), opened()
    assert first.loop is not second.loop
    first.close(nothing())
    second.close(nothing())
    assert second.loop.is_closed()
    assert opened_again(first.loop)


def opened_again(loop: asyncio.AbstractEventLoop) -> bool:
    io = opened()
    same = io.loop is loop
    io.close(nothing())
    return same


def test_timers_and_tasks_of_a_connection_end_with_it() -> None:
    came: list[str] = []
    ended = threading.Event()

    async def leave_things() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, came.append, "later")
        loop.call_at(loop.time() + 0.01, came.append, "at")
        left.append(loop.create_task(endless()))
        await asyncio.sleep(0)  # it begins

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    left: list[asyncio.Task[None]] = []
    first = opened()
    first.call(leave_things())
    first.close(nothing())
    assert ended.is_set()
    second = opened()
    # A timer of the new connection that is due after the old ones would have been.
    second.call(asyncio.sleep(0.05))
    assert came == []
    second.close(nothing())


def test_at_the_end_of_the_process_no_thread_is_left() -> None:
    io = opened()
    io.close(nothing())
    assert not io.loop.is_closed()
    end_waiting_thread()
    assert io.loop.is_closed()


def test_what_ends_by_itself_is_not_cancelled() -> None:
    """gRPC's own tasks at the end of a call; cancelled, it prints a traceback."""
    gate = threading.Event()
    told: list[str] = []
    left: list[asyncio.Task[None]] = []

    async def ends_soon() -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, gate.wait)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise
        told.append("ended")

    async def leave() -> None:
        left.append(asyncio.get_running_loop().create_task(ends_soon()))
        await asyncio.sleep(0)  # it begins

    io = opened()
    io.call(leave())
    opener = threading.Timer(0.05, gate.set)
    opener.start()
    io.close(nothing())
    opener.join()
    assert told == ["ended"]
