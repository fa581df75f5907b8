"""What users hold: identity, futures, and the queue of dropped references."""

import asyncio
import concurrent.futures
import gc
import pickle

import pytest

from driver_client import exceptions, object_ref
from driver_client.object_ref import ObjectRef, another, entry_of
from driver_client.objects import entry as entries
from driver_client.objects import serialization
from driver_client.objects.entry import Entry

OWNER = b"o" * 16


@pytest.fixture(autouse=True)
def _no_runtime():
    object_ref.changes.clear()
    yield
    gc.collect()
    object_ref.changes.clear()
    object_ref.fetch = object_ref.resolve = object_ref.export = object_ref.wake_io = None


def pending(sequence=1):
    entry = Entry(sequence, OWNER, "h:1")
    return ObjectRef(entry), entry


def complete(entry, value):
    entry.complete(serialization.dumps(value), entries.VALUE)


def test_references_of_one_object_are_equal_and_hash_alike():
    first, entry = pending()
    second = another(entry)
    other, _ = pending(2)
    assert first == second
    assert hash(first) == hash(second)
    assert first != other
    assert first != "x"
    assert len({first, second, other}) == 2


def test_a_dropped_reference_is_queued_and_another_one_counts():
    reference, entry = pending()
    more = another(entry)
    assert list(object_ref.changes) == [(entry,)]
    del reference
    assert list(object_ref.changes) == [(entry,), entry]
    del more


def test_many_drops_wake_the_io_thread_and_few_do_not():
    woken = []
    object_ref.wake_io = lambda: woken.append(len(object_ref.changes))
    for _ in range(object_ref.limits.DROPPED_REFERENCES_MAX):
        pending()
    assert woken == []
    pending()
    assert woken == [object_ref.limits.DROPPED_REFERENCES_MAX + 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: setattr(entry, "actor", b"a"),
        lambda entry: setattr(entry, "contained", []),
        lambda entry: setattr(entry, "data", b"x" * (1 << 20)),
        lambda entry: setattr(entry, "key", b"borrowed"),
    ],
    ids=["an actor", "holds others", "large", "borrowed"],
)
def test_a_drop_that_others_wait_for_wakes_at_once(change):
    woken = []
    object_ref.wake_io = lambda: woken.append(True)
    reference, entry = pending()
    change(entry)
    del reference
    assert woken == [True]


def test_a_future_gets_the_value_or_the_error():
    reference, entry = pending()
    future = reference.future()
    assert not future.done()
    complete(entry, 5)
    assert future.result(0) == 5
    assert reference.future().result(0) == 5
    failed, entry = pending()
    entry.complete(exceptions.pickle_error(KeyError("k")), entries.ERROR)
    with pytest.raises(KeyError):
        failed.future().result(0)


def test_a_cancelled_future_is_left_alone():
    reference, entry = pending()
    future = reference.future()
    assert future.cancel()
    complete(entry, 5)
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(0)


def test_a_future_of_a_pending_object_asks_its_owner_and_keeps_the_reference():
    asked = []
    object_ref.fetch = asked.append
    reference, entry = pending()
    future = reference.future()
    assert asked == [entry]
    del reference
    assert list(object_ref.changes) == []
    complete(entry, 1)
    assert future.result(0) == 1
    assert list(object_ref.changes) == [entry]
    done, _ = ObjectRef(entry), entry
    done.future()
    assert asked == [entry]


async def test_a_reference_can_be_awaited_before_and_after():
    reference, entry = pending()
    task = asyncio.ensure_future(_value(reference))
    await asyncio.sleep(0)
    complete(entry, [1])
    assert await task == [1]
    assert await reference == [1]


async def _value(reference):
    return await reference


def test_reading_a_reference_needs_a_runtime():
    reference, entry = pending()
    exported = []
    object_ref.export = exported.append
    data = pickle.dumps(reference)
    assert exported == [entry]
    with pytest.raises(RuntimeError, match=r"shoal\.init"):
        pickle.loads(data)
    object_ref.resolve = lambda object_id, address: (object_id, address)
    assert pickle.loads(data) == (entry.object_id, "h:1")


def test_a_references_ids_are_those_of_its_entry():
    reference, entry = pending(9)
    assert entry_of(reference) is entry
    assert bytes.fromhex(reference.hex()) == reference.binary() == entry.object_id
    assert reference.task_id().binary() == entry.object_id[:24]
