"""Actors that come back: how often, with which state, and what happens to calls meanwhile."""

from __future__ import annotations

import os
import signal

import pytest

import shoal
from shoal.exceptions import ActorDiedError, RayActorError
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import until, until_gone

pytestmark = pytest.mark.usefixtures("one_node")


def answer(counter: object) -> int | None:
    """A pid, or None while the actor cannot answer."""
    try:
        return shoal.get(counter.pid.remote(), timeout=20)
    except RayActorError:
        return None


def test_an_actor_without_restarts_stays_dead():
    counter = Counter.remote()
    pid = shoal.get(counter.pid.remote())
    counter.crash.remote()
    until_gone(pid)
    with pytest.raises(ActorDiedError) as caught:
        shoal.get(counter.pid.remote())
    assert caught.value.cause.name == "WORKER_DIED"


def test_a_restarted_actor_starts_from_its_constructor():
    counter = Counter.options(max_restarts=1).remote(5)
    assert shoal.get(counter.add.remote()) == 6
    pid = shoal.get(counter.pid.remote())
    counter.crash.remote()
    assert until(lambda: answer(counter), "an answer after the restart") != pid
    assert shoal.get(counter.add.remote()) == 6


def test_restarts_are_counted():
    counter = Counter.options(max_restarts=2).remote()
    pids = [shoal.get(counter.pid.remote())]
    for _ in range(2):
        counter.crash.remote()
        pids.append(until(lambda: answer(counter), "an answer after a restart"))
    assert len(set(pids)) == 3
    os.kill(pids[-1], signal.SIGKILL)
    until_gone(pids[-1])
    with pytest.raises(ActorDiedError):
        shoal.get(counter.pid.remote())


def test_unlimited_restarts():
    counter = Counter.options(max_restarts=-1, max_task_retries=-1).remote()
    seen: set[int] = set()
    for _ in range(6):
        pid = shoal.get(counter.pid.remote())
        seen.add(pid)
        os.kill(pid, signal.SIGKILL)
    assert len(seen) == 6


def test_a_call_in_flight_is_retried_if_asked_for(gate):
    counter = Counter.options(max_restarts=1, max_task_retries=1).remote()
    pid = shoal.get(counter.pid.remote())
    running = counter.gated.remote(gate.path)
    os.kill(pid, signal.SIGKILL)
    gate.open()
    assert shoal.get(running) != pid


def test_a_call_in_flight_fails_if_no_retry_was_asked_for(gate):
    counter = Counter.options(max_restarts=1).remote()
    pid = shoal.get(counter.pid.remote())
    running = counter.gated.remote(gate.path)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RayActorError):
        shoal.get(running)
    gate.open()


def test_order_is_kept_over_a_restart():
    counter = Counter.options(max_restarts=1, max_task_retries=1).remote()
    pid = shoal.get(counter.pid.remote())
    os.kill(pid, signal.SIGKILL)
    assert shoal.get([counter.add.remote() for _ in range(100)]) == list(range(1, 101))


def test_kill_ends_a_restartable_actor_for_good():
    counter = Counter.options(max_restarts=-1, max_task_retries=-1).remote()
    pid = shoal.get(counter.pid.remote())
    shoal.kill(counter)
    until_gone(pid)
    with pytest.raises(ActorDiedError) as caught:
        shoal.get(counter.pid.remote())
    assert caught.value.cause.name == "KILLED"


def test_kill_with_no_restart_false_is_a_restart():
    counter = Counter.options(max_restarts=1, max_task_retries=1).remote()
    pid = shoal.get(counter.pid.remote())
    shoal.kill(counter, no_restart=False)
    until_gone(pid)
    assert shoal.get(counter.pid.remote()) != pid


def test_ten_actors_that_die_together_come_back_together():
    counters = [Counter.options(max_restarts=1, max_task_retries=-1).remote() for _ in range(10)]
    before = shoal.get([counter.pid.remote() for counter in counters])
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    after = shoal.get([counter.pid.remote() for counter in counters])
    assert not set(before) & set(after)
    assert len(set(after)) == 10


def test_a_named_actor_keeps_its_name_over_a_restart():
    counter = Counter.options(name="phoenix", max_restarts=1, max_task_retries=-1).remote()
    pid = shoal.get(counter.pid.remote())
    os.kill(pid, signal.SIGKILL)
    assert shoal.get(shoal.get_actor("phoenix").pid.remote()) != pid
    shoal.kill(counter)
