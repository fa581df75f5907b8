"""The end of the actor itself, and of its last handle, before it is alive and while it restarts."""

from __future__ import annotations

import gc
import os
import signal

import pytest

import shoal
from tests.cluster.fates import (
    Story,
    Subject,
    bring_to,
    died,
    listed_cause,
    nothing_left,
    nothing_wanted,
)
from tests.cluster.remote_code import Counter, pass_gate
from tests.cluster.waiting import until, until_gone

pytestmark = pytest.mark.usefixtures("settled")

NAME = "fated"


def is_listed_as(cluster: object, cause: str) -> None:
    until(lambda: listed_cause(cluster.address, NAME), "the list says that it is dead")
    assert listed_cause(cluster.address, NAME) == cause


def takes_the_name() -> None:
    shoal.kill(Subject.options(name=NAME, resources={"nowhere": 1}).remote(""))


# ---- the actor itself


@pytest.mark.parametrize("phase", ["no room", "no argument", "starting", "restarting"])
def test_kill_is_final_in_every_phase_before_the_actor_is_alive(one_node, tmp_path, phase):
    story = Story(tmp_path)
    subject = bring_to(phase, story, name=NAME)
    waiting = subject.pid.remote()
    starts = len(story.pids())
    shoal.kill(subject)
    takes_the_name()
    assert died(lambda: shoal.get(waiting, timeout=20)).cause.name == "KILLED"
    assert died(lambda: shoal.get(subject.pid.remote(), timeout=20)).cause.name == "KILLED"
    nothing_left(story)
    assert len(story.pids()) == starts


def test_kill_with_restart_of_an_actor_in_its_constructor_is_a_restart(one_node, tmp_path):
    story = Story(tmp_path)
    subject = bring_to("starting", story)
    waiting = subject.pid.remote()
    first = story.pid(1)
    shoal.kill(subject, no_restart=False)
    until_gone(first)
    story.let(2)
    assert shoal.get(waiting, timeout=20) == story.pid(2)


@shoal.remote(max_restarts=3)
class Refuser:
    def __init__(self, path: str) -> None:
        pass_gate(path)
        raise LookupError("not today")

    def pid(self) -> int:
        return os.getpid()


@pytest.mark.parametrize("lifetime", [None, "detached"])
def test_a_constructor_that_raises_ends_the_actor_for_good(one_node, gate, lifetime):
    refuser = Refuser.options(name=NAME, lifetime=lifetime).remote(gate.path)
    waiting = refuser.pid.remote()
    gate.open()
    error = died(lambda: shoal.get(waiting, timeout=20))
    assert error.cause.name == "CREATION_FAILED"
    assert "not today" in str(error)
    is_listed_as(one_node, "CREATION_FAILED")
    takes_the_name()


@pytest.mark.parametrize("lifetime", [None, "detached"])
def test_a_worker_that_dies_in_the_constructor_uses_up_a_restart(one_node, tmp_path, lifetime):
    story = Story(tmp_path)
    subject = Subject.options(name=NAME, lifetime=lifetime, max_restarts=1).remote(str(tmp_path))
    waiting = subject.pid.remote()
    os.kill(story.pid(1), signal.SIGKILL)
    os.kill(story.pid(2), signal.SIGKILL)
    assert died(lambda: shoal.get(waiting, timeout=20)).cause.name == "WORKER_DIED"
    is_listed_as(one_node, "WORKER_DIED")
    nothing_left(story)
    assert len(story.pids()) == 2


def test_actors_killed_at_once_leave_no_worker_and_no_demand(one_node):
    """FIELD_REPORTS O-10 (b), many times."""
    for _ in range(20):
        counters = [Counter.options(num_cpus=2).remote() for _ in range(2)]
        for counter in counters:
            shoal.kill(counter)
        again = [Counter.options(num_cpus=2).remote() for _ in range(2)]
        assert shoal.get([counter.add.remote() for counter in again], timeout=20) == [1, 1]
        for counter in again:
            shoal.kill(counter)
    until(nothing_wanted, "no demand is left")


# ---- its last handle


@pytest.mark.parametrize("missing", ["no room", "no argument"])
def test_an_actor_that_waits_to_start_ends_with_its_last_handle(one_node, tmp_path, missing):
    story = Story(tmp_path)
    subject = bring_to(missing, story, name=NAME)
    del subject
    is_listed_as(one_node, "OUT_OF_SCOPE")
    nothing_left(story)
    takes_the_name()


@pytest.mark.parametrize("phase", ["starting", "restarting"])
def test_an_actor_in_its_constructor_finishes_it_when_the_last_handle_goes(
    one_node, tmp_path, phase
):
    story = Story(tmp_path)
    subject = bring_to(phase, story, name=NAME)
    start = len(story.pids())
    del subject
    gc.collect()
    is_listed_as(one_node, "OUT_OF_SCOPE")
    takes_the_name()
    assert not story.is_made(start)
    story.let(start)
    nothing_left(story)
    assert story.is_made(start), "the constructor ran to its end"
    assert len(story.pids()) == start, "it was not started again"


@pytest.mark.parametrize("phase", ["no room", "starting", "restarting"])
def test_a_call_made_before_the_last_handle_went_is_answered_first(one_node, tmp_path, phase):
    story = Story(tmp_path)
    options = {"num_cpus": 4} if phase == "no room" else {}
    everything = Counter.options(num_cpus=4).remote() if phase == "no room" else None
    if everything is not None:
        shoal.get(everything.pid.remote())
        subject = Subject.options(**options).remote(str(tmp_path))
    else:
        subject = bring_to(phase, story)
    waiting = subject.pid.remote()
    del subject
    if everything is not None:
        shoal.kill(everything)
    start = 2 if phase == "restarting" else 1
    story.let(start)
    assert shoal.get(waiting, timeout=20) == story.pid(start)
    nothing_left(story)
