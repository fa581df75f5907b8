"""Closing the I/O thread answers everybody who still waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from driver_client.shell.io_thread import IoThread

DEADLINE_S = 20.0


async def nothing() -> None:
    return


def test_a_call_under_way_in_another_thread_ends_with_a_clear_error():
    io = IoThread("test-io")
    io.start()
    begun = threading.Event()
    errors: list[BaseException] = []

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            io.call(endless())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is looked at below
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(DEADLINE_S)
    io.close(nothing())
    waiting.join(DEADLINE_S)
    assert not waiting.is_alive()
    assert len(errors) == 1
    assert "closed meanwhile" in str(errors[0])


def test_a_call_after_closing_is_refused():
    io = IoThread("test-io")
    io.start()
    io.close(nothing())
    with pytest.raises(RuntimeError, match="closed"):
        io.call(nothing())
