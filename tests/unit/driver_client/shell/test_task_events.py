"""What a process remembers of its executions: bounded, whole or counted, sent together."""

from __future__ import annotations

import time

import pytest

from driver_client import limits
from driver_client.shell import task_events
from driver_client.shell.io_thread import IoThread
from driver_client.shell.process_facts import ProcessFacts
from driver_client.shell.task_events import TASK, TaskEvents, rows_of


@pytest.fixture
def io():
    io = IoThread("test-io")
    io.start()
    yield io
    io.close(nothing())


async def nothing() -> None:
    return


def facts(**fields):
    plain = dict.fromkeys(("gcs_address", "agent_address", "own_address", "session_name"), "")
    ids = {"owner_id": b"o" * 16, "cluster_id": b"", "node_id": b"n" * 16, "job_id": b"job1"}
    return ProcessFacts(**plain, **ids, is_driver=False, **fields)


def row(number):
    return (b"o" * 16, number, f"task {number}", 1_000 * number, 5, TASK)


@pytest.fixture
def events(io, monkeypatch):
    monkeypatch.setattr(limits, "TASK_EVENTS_UNSENT_MAX", 6)
    monkeypatch.setattr(limits, "TASK_EVENTS_BATCH_MAX", 4)
    monkeypatch.setattr(limits, "TASK_EVENTS_FLUSH_S", 0.01)
    return TaskEvents(io, facts())


def test_a_worker_keeps_the_first_and_counts_the_rest(events):
    sent = []
    events.send = sent.append
    for number in range(9):
        events.add(row(number))
    events.flush()
    assert [(len(rows_of(batch)), batch.count, batch.lost) for batch in sent] == [
        (4, 4, 3),
        (2, 2, 0),
    ]
    assert [each for batch in sent for each in rows_of(batch)] == [row(n) for n in range(6)]
    assert {batch.job_id for batch in sent} == {b"job1"}


def test_a_driver_keeps_the_last(events):
    for number in range(8):
        events.add(row(number))
    for _ in range(2):  # looking at them changes nothing
        assert rows_of(events.kept()) == [row(number) for number in range(3, 8)]


def test_rows_leave_by_themselves_once(io, events):
    sent = []
    events.send = sent.append
    events.add_alone(row(1))
    end = time.monotonic() + 10
    while not sent:
        assert time.monotonic() < end, "nothing was sent"
        time.sleep(0.001)
    assert [rows_of(batch) for batch in sent] == [[row(1)]]


def test_who_asks_hears_the_end_even_if_there_is_nothing(events):
    sent = []
    events.send = sent.append
    events.flush()
    assert sent == []
    events.flush(asked=True)
    assert [(batch.count, batch.flushed) for batch in sent] == [(0, True)]
    for number in range(5):
        events.add(row(number))
    events.flush(asked=True)
    assert [(batch.count, batch.flushed) for batch in sent[1:]] == [(4, False), (1, True)]


def test_nothing_is_kept_or_counted_where_it_is_off(io, monkeypatch):
    monkeypatch.setenv(task_events.SWITCH_VARIABLE, "0")
    events = TaskEvents(io, facts())
    sent = []
    events.send = sent.append
    events.add(row(1))
    events.flush(asked=True)
    assert [(batch.count, batch.lost) for batch in sent] == [(0, 0)]


def test_short_waits_are_left_out_and_long_ones_belong_to_their_task(events):
    events.waited("get", time.perf_counter_ns())
    assert events.rows == []
    events.waited("get", time.perf_counter_ns() - 10_000_000)
    [(sender, sequence, name, _, took_us, kind)] = events.rows
    assert (sender, sequence, name, kind) == (b"o" * 16, 0, "get", task_events.WAIT)
    assert took_us >= 10_000


def test_starts_become_wall_clock(events):
    now_ns = time.perf_counter_ns()
    events.add((b"o" * 16, 1, "task", now_ns, 5, TASK))
    batch = events.kept()
    wall_s = (rows_of(batch)[0][3] + batch.clock_ns) / 1e9
    assert abs(wall_s - time.time()) < 60
