import asyncio

import pytest

from cluster_common import limits
from cluster_common.transport.outbox import Outbox, OutboxOverflowError


class Wire:
    """Takes frames; each write waits until the test lets it through."""

    def __init__(self):
        self.frames = []
        self.began = asyncio.Event()
        self.allowed = asyncio.Semaphore(0)

    async def write(self, items):
        self.frames.append(list(items))
        self.began.set()
        await self.allowed.acquire()


async def running(outbox):
    return asyncio.get_running_loop().create_task(outbox.run())


async def ended(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_is_queued_during_a_write_goes_as_one_frame():
    wire = Wire()
    outbox = Outbox(wire.write)
    task = await running(outbox)
    outbox.put(1)
    await wire.began.wait()
    for item in (2, 3, 4):
        outbox.put(item)
    wire.allowed.release()
    wire.allowed.release()
    await outbox.drained()
    assert wire.frames == [[1], [2, 3, 4]]
    assert (outbox.frames_sent, outbox.items_sent) == (2, 4)
    await ended(task)


async def test_a_newer_item_replaces_the_unsent_one_of_its_key_in_place():
    wire = Wire()
    outbox = Outbox(wire.write)
    outbox.put("old", key="node")
    outbox.put("other")
    outbox.put("new", key="node")
    task = await running(outbox)
    wire.allowed.release()
    await outbox.drained()
    assert wire.frames == [["new", "other"]]
    assert outbox.replaced == 1
    await ended(task)


async def test_frames_keep_to_both_caps_and_an_item_above_the_cap_goes_alone():
    wire = Wire()
    outbox = Outbox(wire.write, size_of=len, items_max=2, bytes_max=10)
    for item in ("a", "b", "c", "x" * 50, "d"):
        outbox.put(item)
    for _ in range(4):
        wire.allowed.release()
    task = await running(outbox)
    await outbox.drained()
    assert wire.frames == [["a", "b"], ["c"], ["x" * 50], ["d"]]
    await ended(task)


async def test_a_reader_that_is_too_slow_is_an_error_not_a_growing_queue(monkeypatch):
    monkeypatch.setattr(limits, "OUTBOX_ITEMS_MAX", 3)
    outbox = Outbox(Wire().write)
    for item in range(3):
        outbox.put(item)
    with pytest.raises(OutboxOverflowError):
        outbox.put(4)


async def test_a_failed_write_ends_the_run():
    async def write(items):
        raise ConnectionError("closed")

    outbox = Outbox(write)
    outbox.put(1)
    with pytest.raises(ConnectionError):
        await outbox.run()
