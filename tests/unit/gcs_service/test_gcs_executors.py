"""Executors, the way back to the loop, and the journal's promise of order."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

import pytest

from gcs_service import limits
from gcs_service.core.tables import KV, Write
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.journal import Journal, Lane
from gcs_service.shell.loop_bridge import LoopBridge, resolve, resolve_read
from gcs_service.shell.storage.memory_storage import MemoryStorage
from gcs_service.shell.storage.protocol import StorageError, StoreLostError, StoreTakenError


class GatedStorage(MemoryStorage):
    """Commits only while `gate` is open; notes what it committed."""

    is_instant = False
    is_remote = False

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()
        self.batches = []
        self.fails = False
        self.error = StorageError("disk full")

    def commit(self, writes):
        assert self.gate.wait(10)
        if self.fails:
            raise self.error
        self.batches.append(len(writes))
        super().commit(writes)


@pytest.fixture
def executor():
    made = []

    def make(**options):
        made.append(NamedExecutor("test", **options))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_calls_run_in_order_on_one_thread(executor):
    seen, threads, done = [], set(), threading.Event()
    one = executor()
    for number in range(1_000):
        one.submit(seen.append, number)
        one.submit(lambda: threads.add(threading.get_ident()))
    one.submit(done.set)
    assert done.wait(10)
    assert seen == list(range(1_000))
    assert len(threads) == 1
    assert one.handled >= 2_000


def test_a_failing_call_does_not_end_the_executor(executor, capsys):
    done = threading.Event()
    one = executor()
    one.submit(lambda: 1 / 0)
    one.submit(done.set)
    assert done.wait(10)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_what_waits_behind_a_call_is_one_batch(executor):
    started, gate, done = threading.Event(), threading.Event(), threading.Event()
    batches, seen = [], []
    one = executor(batch_ended=lambda: batches.append(len(seen)))
    one.submit(lambda: (started.set(), gate.wait(10)))
    assert started.wait(10)
    for number in range(10):
        one.submit(seen.append, number)
    assert one.queue_length == 10
    assert one.lag_ms > 0
    gate.set()
    one.submit(done.set)
    assert done.wait(10)
    one.stop()
    assert [size for size in batches if 0 < size < 10] == []


def test_a_batch_is_bounded(executor, monkeypatch):
    monkeypatch.setattr(limits, "EXECUTOR_BATCH_ITEMS_MAX", 4)
    started, gate = threading.Event(), threading.Event()
    batches, seen = [], []
    one = executor(batch_ended=lambda: batches.append(len(seen)))
    one.submit(lambda: (started.set(), gate.wait(10)))
    assert started.wait(10)
    for number in range(20):
        one.submit(seen.append, number)
    gate.set()
    one.stop()
    sizes = [after - before for before, after in pairwise(batches)]
    assert max(sizes) <= 5


def test_a_deadline_is_met_without_any_call(executor):
    reached = threading.Event()
    deadline = [0]
    executor(
        next_deadline_ns=lambda: None if reached.is_set() else deadline[0],
        deadline_reached=reached.set,
    )
    assert reached.wait(10)


async def test_posts_run_on_the_loop_in_order_from_any_thread():
    bridge = LoopBridge(asyncio.get_running_loop())
    seen, done = [], asyncio.Event()
    main = threading.get_ident()

    def produce():
        for number in range(5_000):
            bridge.post(lambda n: seen.append((n, threading.get_ident())), number)
        bridge.post(done.set)

    await asyncio.gather(asyncio.to_thread(produce), asyncio.wait_for(done.wait(), 10))
    assert seen == [(number, main) for number in range(5_000)]


async def test_one_failing_output_does_not_lose_the_others(capsys):
    bridge = LoopBridge(asyncio.get_running_loop())
    done = asyncio.Event()
    bridge.post_many([(lambda: 1 / 0, ()), (done.set, ())])
    await asyncio.wait_for(done.wait(), 10)
    assert "output_failed" in capsys.readouterr().err


class JournalRig:
    def __init__(self):
        self.storage = GatedStorage()
        self.bridge = LoopBridge(asyncio.get_running_loop())
        self.failures = []
        self.journal = Journal(self.storage, self.failures.append)
        self.journal.executor.start()
        self.lane = Lane(self.journal, self.bridge)
        self.other_lane = Lane(self.journal, self.bridge)
        self.seen = []

    def say(self, lane, text, *writes):
        lane.deliver([Write(KV, key, b"v") for key in writes], [(self.seen.append, (text,))])

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - threads set it, there is no event
                await asyncio.sleep(0.001)


@pytest.fixture
async def rig():
    rig = JournalRig()
    yield rig
    rig.storage.gate.set()
    await asyncio.to_thread(rig.journal.executor.stop)


async def test_what_depends_on_a_write_leaves_after_it(rig):
    rig.say(rig.lane, "answer", b"k")
    await rig.until(lambda: rig.journal.executor.handled == 1)
    await asyncio.sleep(0)
    assert rig.seen == []
    rig.storage.gate.set()
    await rig.until(lambda: rig.seen == ["answer"])
    assert rig.storage.load(KV) == [(b"k", b"v")]


async def test_outputs_of_one_lane_never_overtake_each_other(rig):
    rig.say(rig.lane, "1 writes", b"a")
    rig.say(rig.lane, "2 does not")
    rig.say(rig.lane, "3 writes", b"b")
    rig.say(rig.lane, "4 does not")
    rig.storage.gate.set()
    await rig.until(lambda: len(rig.seen) == 4)
    assert rig.seen == ["1 writes", "2 does not", "3 writes", "4 does not"]


async def test_a_lane_without_writes_does_not_wait_for_another(rig):
    rig.say(rig.lane, "slow", b"a")
    rig.say(rig.other_lane, "fast")
    await rig.until(lambda: rig.seen == ["fast"])
    rig.storage.gate.set()
    await rig.until(lambda: rig.seen == ["fast", "slow"])


async def test_after_the_write_the_lane_is_direct_again(rig):
    rig.storage.gate.set()
    rig.say(rig.lane, "write", b"a")
    await rig.until(lambda: rig.lane.completed == 1)
    rig.storage.gate.clear()
    rig.say(rig.lane, "direct")
    await rig.until(lambda: rig.seen == ["write", "direct"])


async def test_writes_that_wait_become_one_transaction(rig):
    rig.say(rig.lane, "first", b"0")
    await rig.until(lambda: rig.journal.executor.handled == 1)
    for number in range(1, 51):
        rig.say(rig.lane, number, b"%d" % number)
    rig.storage.gate.set()
    await rig.until(lambda: len(rig.seen) == 51)
    assert rig.storage.batches == [1, 50]


async def test_while_the_store_is_lost_outputs_wait_in_order_and_leave_when_it_is_back(rig, capsys):
    rig.storage.fails = True
    rig.storage.gate.set()
    rig.say(rig.lane, "1 writes", b"a")
    rig.say(rig.lane, "2 does not")
    await rig.until(lambda: rig.journal.is_read_only)
    rig.say(rig.lane, "3 writes", b"b")
    rig.say(rig.other_lane, "unconcerned")
    await rig.until(lambda: rig.seen == ["unconcerned"])
    assert rig.journal.problem == "disk full"
    rig.storage.fails = False
    await rig.until(lambda: len(rig.seen) == 4)
    assert rig.seen == ["unconcerned", "1 writes", "2 does not", "3 writes"]
    assert not rig.journal.is_read_only
    assert rig.storage.load(KV) == [(b"a", b"v"), (b"b", b"v")]
    rig.say(rig.lane, "direct again")
    await rig.until(lambda: rig.seen[-1] == "direct again")
    assert rig.failures == []
    capsys.readouterr()


async def test_who_waits_for_a_lost_write_is_told_and_who_reads_is_answered(rig, capsys):
    rig.storage.fails = True
    rig.storage.gate.set()
    loop = asyncio.get_running_loop()
    wrote, read, read_later = loop.create_future(), loop.create_future(), loop.create_future()
    rig.lane.deliver(
        [Write(KV, b"k", b"v")], [(resolve, (wrote, "done")), (resolve_read, (read, "seen"))]
    )
    with pytest.raises(StoreLostError, match=r"read-only.*disk full"):
        await asyncio.wait_for(wrote, 10)
    assert await asyncio.wait_for(read, 10) == "seen"
    rig.lane.deliver([], [(resolve_read, (read_later, "seen too"))])
    assert await asyncio.wait_for(read_later, 10) == "seen too"
    capsys.readouterr()


async def test_a_store_that_somebody_else_took_ends_the_service(rig, capsys):
    rig.storage.error = StoreTakenError("taken")
    rig.storage.fails = True
    rig.storage.gate.set()
    rig.say(rig.lane, "never", b"a")
    await rig.until(lambda: rig.failures)
    assert rig.seen == []
    capsys.readouterr()


async def test_what_waits_for_a_lost_store_is_bounded(rig, monkeypatch, capsys):
    monkeypatch.setattr(limits, "STORE_LOST_OUTPUTS_MAX", 10)
    rig.storage.fails = True
    rig.storage.gate.set()
    for number in range(20):
        rig.say(rig.lane, number, b"k")
    await rig.until(lambda: rig.failures)
    assert rig.seen == []
    capsys.readouterr()
