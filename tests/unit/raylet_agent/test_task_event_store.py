"""What a node remembers of its workers' executions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1.task_events_pb2 import TaskEventBatch
from cluster_common.transport.outbox import Outbox
from raylet_agent import limits
from raylet_agent.shell.host import Stream
from raylet_agent.shell.task_event_store import TaskEventStore

NODE, W1, W2 = b"n" * 16, b"1" * 16, b"2" * 16


@pytest.fixture
def store():
    return TaskEventStore(NODE)


def batch(count, job=b"job1", **fields):
    return TaskEventBatch(job_id=job, count=count, rows=bytes(count), **fields)


def kept(store, job=b""):
    return [(found.job_id, found.count, found.lost) for found in store.batches(job)]


def test_batches_come_back_in_order_of_one_job_or_of_all(store):
    for number, job in ((1, b"job1"), (2, b"job2"), (3, b"job1")):
        store.take(W1, batch(number, job))
    assert kept(store) == [(b"job1", 1, 0), (b"job2", 2, 0), (b"job1", 3, 0)]
    assert kept(store, b"job1") == [(b"job1", 1, 0), (b"job1", 3, 0)]
    assert len(store) == 6


def test_the_oldest_goes_first_and_is_counted_with_what_the_worker_lost(store, monkeypatch):
    monkeypatch.setattr(limits, "TASK_EVENTS_MAX", 10)
    store.take(W1, batch(6, b"job1", lost=100))
    store.take(W1, batch(5, b"job2"))
    assert kept(store) == [(b"job2", 5, 0), (b"job1", 0, 106)]
    monkeypatch.setattr(limits, "TASK_EVENT_BYTES_MAX", 20)
    store.take(W1, batch(4, b"job3"))
    assert kept(store) == [(b"job3", 4, 0), (b"job1", 0, 106), (b"job2", 0, 5)]
    assert kept(store, b"job2") == [(b"job2", 0, 5)]


def test_losses_of_the_oldest_jobs_are_forgotten(store, monkeypatch):
    monkeypatch.setattr(limits, "TASK_EVENT_JOBS_MAX", 2)
    for number in range(3):
        store.take(W1, batch(0, b"job%d" % number, lost=1))
    assert kept(store) == [(b"job1", 0, 1), (b"job2", 0, 1)]


def link(orders):
    async def write(items: Sequence[a.WorkerCommand]) -> None:
        orders.extend(items)

    return Stream(Outbox(write))


async def test_collecting_asks_all_workers_and_waits_for_each(store):
    orders: list[a.WorkerCommand] = []
    links = {W1: link(orders), W2: link(orders)}
    senders = [asyncio.create_task(each.outbox.run()) for each in links.values()]
    collecting = asyncio.create_task(store.collect(links))
    async with asyncio.timeout(10):
        while len(orders) < 2:  # noqa: ASYNC110 - the writers take turns with us; bounded above
            await asyncio.sleep(0)
        assert all(order.HasField("flush_task_events") for order in orders)
        store.take(W1, batch(3))
        store.take(W1, batch(0, flushed=True))
        await asyncio.sleep(0)
        assert not collecting.done()
        store.gone(W2)
        await collecting
    assert kept(store) == [(b"job1", 3, 0)]
    for sender in senders:
        sender.cancel()
    await asyncio.gather(*senders, return_exceptions=True)


async def test_a_worker_that_hangs_is_not_waited_for(store, monkeypatch):
    monkeypatch.setattr(limits, "TASK_EVENTS_COLLECT_MS", 1)
    async with asyncio.timeout(10):
        await store.collect({W1: link([])})
    store.take(W1, batch(1, flushed=True))
    assert kept(store) == [(b"job1", 1, 0)]
