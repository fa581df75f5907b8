"""Borrowed references: told to their owner, fetched from it, returned, and lost with it."""

import gc
import threading

import pytest

from driver_client import exceptions, object_ref
from driver_client.object_ref import entry_of, open_entry
from driver_client.objects import entry as entries
from driver_client.objects import serialization
from driver_client.objects.entry import Entry
from driver_client.shell.blocking import Blocking
from tests.wire.driver.peer_rig import WAIT_S, until

NOBODY = "127.0.0.1:1"
STRANGER = b"s" * 16


def borrow(rig, entry):
    """The worker reads the owner's reference."""
    return rig.worker.ownership.resolve(entry.object_id, rig.owner.address)


def sweep(rig):
    gc.collect()
    rig.on_io(rig.worker.ownership.sweep)


def value(rig, reference):
    entry = entry_of(reference)
    rig.worker.ownership.fetch(entry)
    Blocking().until_complete([entry], WAIT_S)
    return open_entry(entry)


def settled(rig):
    until(lambda: not rig.worker.ownership.has_unacknowledged, "the owner answers")


def test_an_owner_knows_its_borrowers_until_they_let_go(rig):
    kept, entry = rig.put("v")
    borrowed = borrow(rig, entry)
    settled(rig)
    assert entry.borrowers == {rig.worker.owner_id}
    del borrowed
    sweep(rig)
    until(lambda: not entry.borrowers, "the borrower lets go")
    assert rig.worker.ownership.borrowed == {}
    del kept


def test_an_object_lives_while_somebody_borrows_it(rig):
    kept, entry = rig.put("v")
    borrowed = borrow(rig, entry)
    settled(rig)
    del kept
    gc.collect()
    object_ref.changes.clear()
    rig.on_io(lambda: drop(rig, entry))
    assert rig.owner.ownership.own == {entry.key: entry}
    assert value(rig, borrowed) == "v"
    del borrowed
    sweep(rig)
    until(lambda: rig.owner.ownership.own == {}, "the owner frees it")


def drop(rig, entry):
    object_ref.changes.append(entry)
    rig.owner.ownership.sweep()


def test_a_value_that_is_not_there_yet_follows(rig):
    kept, entry = rig.put("ignored")
    entry.state = entries.PENDING
    borrowed = borrow(rig, entry)
    rig.worker.ownership.fetch(entry_of(borrowed))
    settled(rig)
    until(lambda: entry.waiters, "the owner is asked")
    assert entry_of(borrowed).state == entries.PENDING
    entry.complete(serialization.dumps("late"), entries.VALUE)
    assert value(rig, borrowed) == "late"
    del kept


def test_an_error_is_fetched_as_an_error(rig):
    kept, entry = rig.put("ignored")
    entry.data = exceptions.pickle_error(exceptions.RaySystemError("broken"))
    entry.state = entries.ERROR
    with pytest.raises(exceptions.RaySystemError, match="broken"):
        value(rig, borrow(rig, entry))
    del kept


def test_an_object_that_its_owner_freed_says_so(rig):
    kept, entry = rig.put("v")
    del rig.owner.ownership.own[entry.key]
    with pytest.raises(exceptions.ObjectFreedError, match=entry.object_id.hex()):
        value(rig, borrow(rig, entry))
    del kept


def test_an_owner_that_dies_fails_what_is_pending_and_leaves_what_is_known(rig):
    kept, entry = rig.put("known")
    also_kept, unready = rig.put("ignored")
    unready.state = entries.PENDING
    known, pending = borrow(rig, entry), borrow(rig, unready)
    assert value(rig, known) == "known"
    rig.worker.ownership.fetch(entry_of(pending))
    settled(rig)
    rig.io.call(rig.owner.stop())
    with pytest.raises(exceptions.OwnerDiedError, match=unready.object_id.hex()):
        value(rig, pending)
    assert value(rig, known) == "known"
    del kept, also_kept


def test_an_owner_that_is_gone_holds_no_answer_up(rig):
    """A reference to an object of a dead owner, dropped before the loss is noticed."""
    task = STRANGER + bytes(8) + bytes(4)
    borrowed = rig.worker.ownership.resolve(task, NOBODY)
    assert rig.worker.ownership.has_unacknowledged
    answered = threading.Event()
    rig.on_io(lambda: rig.worker.ownership.after_acknowledged([task], answered.set))
    del borrowed
    sweep(rig)
    assert answered.wait(WAIT_S), "what waits for a dead owner's word goes on"
    assert not rig.worker.ownership.has_unacknowledged


def test_a_dead_owner_does_not_hold_removals_of_others(rig):
    kept, entry = rig.put("v")
    borrowed = borrow(rig, entry)
    settled(rig)
    twice = STRANGER + bytes(8) + bytes(4)
    for _ in range(2):
        lost = rig.worker.ownership.resolve(twice, NOBODY)
        del lost
        sweep(rig)
    del borrowed
    sweep(rig)
    until(lambda: not entry.borrowers, "the removal is sent after the loss")
    del kept


def test_threads_that_read_one_reference_at_once_share_its_entry(rig):
    rounds = 200
    owned = [Entry(n + 1, rig.owner.owner_id, rig.owner.address) for n in range(rounds)]
    for entry in owned:
        entry.complete(serialization.dumps(entry.key), entries.VALUE)
        rig.owner.ownership.export(entry)
    names = [entry.object_id for entry in owned]
    barrier = threading.Barrier(2)
    found = [[], []]

    def read(mine):
        for name in names:
            barrier.wait(WAIT_S)
            mine.append(rig.worker.ownership.resolve(name, rig.owner.address))

    threads = [threading.Thread(target=read, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    for first, second in zip(*found, strict=True):
        assert entry_of(first) is entry_of(second)
    settled(rig)
    assert all(entry.borrowers == {rig.worker.owner_id} for entry in owned)


def test_a_result_with_a_reference_is_held_until_its_owner_has_it(rig):
    kept, entry = rig.put("inside")
    object_ref.resolve = rig.worker.ownership.resolve
    object_ref.export = rig.owner.ownership.export
    try:
        borrowed = borrow(rig, entry)
        settled(rig)
        record = rig.call(rig.connect(), hand_back, borrowed_in_list(borrowed))
        result = rig.value(record)
        assert entry_of(result[0]).object_id == entry.object_id
        stream = next(s for s in rig.worker.service.streams if s.sender_id == rig.owner.owner_id)
        until(lambda: not stream.held, "the worker lets go after the owner's word")
    finally:
        object_ref.resolve = object_ref.export = None
    del kept


def borrowed_in_list(reference):
    return [reference]


def hand_back(references):
    return references


def test_an_entry_that_comes_back_beside_a_newer_one_follows_it(rig):
    """A thread takes one more reference just when the last one is swept; another reads it anew."""
    kept, entry = rig.put("ignored")
    entry.state = entries.PENDING
    first = borrow(rig, entry)
    old = entry_of(first)
    settled(rig)
    late = object_ref.another(old)  # counted only after the drop below
    counted = object_ref.changes.pop()
    del first
    sweep(rig)
    assert rig.worker.ownership.borrowed == {}
    second = borrow(rig, entry)
    object_ref.changes.append(counted)
    sweep(rig)
    assert rig.worker.ownership.borrowed == {entry.object_id: entry_of(second)}
    entry.complete(serialization.dumps("late"), entries.VALUE)
    assert value(rig, second) == "late"
    assert value(rig, late) == "late"
    del second
    sweep(rig)
    assert entry.object_id in rig.worker.ownership.borrowed, "the follower keeps it"
    del late
    sweep(rig)
    until(lambda: not entry.borrowers, "both are gone")
    del kept


def test_an_entry_that_comes_back_alone_is_borrowed_again(rig):
    kept, entry = rig.put("v")
    first = borrow(rig, entry)
    settled(rig)
    late = object_ref.another(entry_of(first))
    counted = object_ref.changes.pop()
    del first
    sweep(rig)
    object_ref.changes.append(counted)
    sweep(rig)
    settled(rig)
    assert entry.borrowers == {rig.worker.owner_id}
    assert value(rig, late) == "v"
    del kept


def test_a_drop_and_a_new_reading_before_the_owners_word_leave_it_borrowed(rig):
    kept, entry = rig.put("v")
    first = borrow(rig, entry)
    del first
    sweep(rig)
    again = borrow(rig, entry)
    settled(rig)
    assert entry.borrowers == {rig.worker.owner_id}
    del again
    sweep(rig)
    until(lambda: not entry.borrowers, "the borrower lets go")
    del kept
