"""`get` and `wait` on entries: time-outs, errors first, CPU lent while blocked."""

import threading

import pytest

from driver_client import exceptions
from driver_client.objects import entry as entries
from driver_client.objects.entry import Entry
from driver_client.shell.blocking import Blocking

WAIT_S = 10.0


def pending(count):
    return [Entry(n, b"o" * 16, "h:1") for n in range(count)]


class Waiting:
    """Runs a blocking call on another thread."""

    def __init__(self, work):
        self.result = None
        self.error = None
        self._work = work
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            self.result = self._work()
        except exceptions.GetTimeoutError as error:
            self.error = error

    def end(self):
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive(), "still blocked"
        return self


def watched(blocking):
    """Events: the thread is blocked long enough to lend its CPU; it took it back."""
    lent, back = threading.Event(), threading.Event()
    blocking.blocked = lent.set
    blocking.unblocked = back.set
    return lent, back


def test_complete_entries_need_no_wait():
    done = pending(2)
    for entry in done:
        entry.complete(b"v", entries.VALUE)
    Blocking().until_complete(done, 0)
    assert Blocking().until_count(done, 2, 0) == [0, 1]


def test_a_get_ends_when_the_last_entry_is_complete():
    blocking, wanted = Blocking(), pending(3)
    lent, back = watched(blocking)
    waiting = Waiting(lambda: blocking.until_complete(wanted, WAIT_S))
    assert lent.wait(WAIT_S)
    for entry in reversed(wanted):
        assert waiting.thread.is_alive()
        entry.complete(b"v", entries.VALUE)
    assert waiting.end().error is None
    assert back.is_set(), "the CPU was taken back"


def test_a_get_of_many_ends_at_the_first_error():
    blocking, wanted = Blocking(), pending(3)
    lent, _ = watched(blocking)
    waiting = Waiting(lambda: blocking.until_complete(wanted, WAIT_S))
    assert lent.wait(WAIT_S)
    wanted[0].complete(b"e", entries.ERROR)
    assert waiting.end().error is None
    assert [entry.state for entry in wanted[1:]] == [entries.PENDING] * 2


def test_errors_of_others_do_not_end_a_get_and_leave_nothing_behind():
    blocking, wanted = Blocking(), pending(2)
    lent, back = watched(blocking)
    waiting = Waiting(lambda: blocking.until_complete(wanted, WAIT_S))
    for other in pending(20):
        assert lent.wait(WAIT_S)
        lent.clear()
        back.clear()
        other.complete(b"e", entries.ERROR)
        assert back.wait(WAIT_S), "it looked, and waits again"
    assert len(wanted[1].waiters) == 1
    for entry in wanted:
        entry.complete(b"v", entries.VALUE)
    assert waiting.end().error is None
    assert entries.error_watchers == []


def test_a_get_that_runs_out_of_time_counts_and_names():
    wanted = pending(3)
    wanted[0].complete(b"v", entries.VALUE)
    with pytest.raises(exceptions.GetTimeoutError, match="2 of 3 object") as caught:
        Blocking().until_complete(wanted, 0)
    assert wanted[2].object_id.hex() in str(caught.value)
    assert isinstance(caught.value, TimeoutError)
    assert wanted[2].waiters == []
    assert entries.error_watchers == []


def test_a_wait_gives_positions_in_order_and_no_more_than_asked():
    wanted = pending(4)
    for position in (3, 1, 2):
        wanted[position].complete(b"v", entries.VALUE)
    assert Blocking().until_count(wanted, 2, 0) == [1, 2]


def test_a_wait_that_runs_out_of_time_gives_what_there_is():
    wanted = pending(3)
    wanted[1].complete(b"e", entries.ERROR)
    assert Blocking().until_count(wanted, 3, 0) == [1]
    assert entries.any_watchers == []


def test_a_wait_wakes_for_each_completion():
    blocking, wanted = Blocking(), pending(3)
    lent, _ = watched(blocking)
    waiting = Waiting(lambda: blocking.until_count(wanted, 2, WAIT_S))
    assert lent.wait(WAIT_S)
    wanted[2].complete(b"v", entries.VALUE)
    assert waiting.thread.is_alive()
    wanted[0].complete(b"e", entries.ERROR)
    assert waiting.end().result == [0, 2]
    assert entries.any_watchers == []


def test_a_short_wait_lends_nothing():
    blocking, wanted = Blocking(), pending(1)
    lent, _ = watched(blocking)
    assert blocking.until_count(wanted, 1, 0.001) == []
    assert not lent.is_set()
