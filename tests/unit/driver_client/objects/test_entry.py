"""Completion and waiting: nobody who waits is left waiting."""

import threading

from cluster_common import ids
from driver_client.objects import entry as entries
from driver_client.objects.entry import Entry, Gate, key_of

OWNER = ids.OwnerId(b"o" * 16)
WAIT_S = 10.0


class Note:
    def __init__(self):
        self.told = []

    def notify(self, entry):
        self.told.append(entry.state)


class EntryGate(Gate):
    __slots__ = ()

    def notify(self, entry):
        self.open()


def pending(sequence=1):
    return Entry(sequence, OWNER, "h:1")


def test_a_waiter_is_told_once_with_the_state_set():
    entry, note = pending(), Note()
    assert entry.add_waiter(note)
    entry.complete(b"v", entries.VALUE)
    entry.complete(b"w", entries.ERROR)
    assert note.told == [entries.VALUE]
    assert entry.data == b"v"


def test_a_late_waiter_learns_that_it_need_not_wait():
    entry = pending()
    entry.complete(b"v", entries.VALUE)
    assert not entry.add_waiter(Note())


def test_a_dropped_waiter_is_not_told():
    entry, note = pending(), Note()
    entry.add_waiter(note)
    entry.drop_waiter(note)
    entry.drop_waiter(note)
    entry.complete(b"v", entries.VALUE)
    assert note.told == []


def test_own_objects_are_named_by_owner_sequence_and_return():
    first = pending(7)
    second = Entry(7 | (3 << 64), OWNER, "h:1")
    assert first.object_id == ids.object_id(ids.task_id(OWNER, 7), 0)
    assert second.object_id == ids.object_id(ids.task_id(OWNER, 7), 3)
    assert [key_of(first.object_id), key_of(second.object_id)] == [first.key, second.key]
    assert Entry(second.object_id, OWNER, "h:1").object_id == second.object_id


def test_a_gate_opened_before_the_look_lets_through_once():
    gate = Gate()
    gate.open()
    gate.open()
    assert gate.pass_through(WAIT_S)
    assert not gate.pass_through(0)


def test_a_reset_gate_forgets():
    gate = Gate()
    gate.open()
    gate.reset()
    gate.reset()
    assert not gate.pass_through(0)


def test_errors_open_the_gates_of_those_who_wait_for_many():
    gate = Gate()
    entries.error_watchers.append(gate)
    try:
        pending().complete(b"v", entries.VALUE)
        assert not gate.pass_through(0)
        pending().complete(b"e", entries.ERROR)
        assert gate.pass_through(0)
    finally:
        entries.error_watchers.remove(gate)


def test_no_wake_up_is_lost_between_a_waiter_and_a_completer():
    """Both sides meet at a barrier, so that they race; bounded rounds."""
    rounds = 300
    barrier = threading.Barrier(2)
    all_entries = [pending(n) for n in range(rounds)]

    def complete():
        for entry in all_entries:
            barrier.wait(WAIT_S)
            entry.complete(b"v", entries.VALUE)

    thread = threading.Thread(target=complete)
    thread.start()
    for entry in all_entries:
        gate = EntryGate()
        barrier.wait(WAIT_S)
        if entry.add_waiter(gate):
            assert gate.pass_through(WAIT_S)
        assert entry.state == entries.VALUE
    thread.join(WAIT_S)


def test_waiters_of_many_threads_are_all_told():
    entry = pending()
    gates = [EntryGate() for _ in range(8)]
    seen = []

    def wait(gate):
        if entry.add_waiter(gate):
            seen.append(gate.pass_through(WAIT_S))
        else:
            seen.append(True)

    threads = [threading.Thread(target=wait, args=(gate,)) for gate in gates]
    for thread in threads:
        thread.start()
    entry.complete(b"v", entries.VALUE)
    for thread in threads:
        thread.join(WAIT_S)
    assert seen == [True] * 8
