"""Detached actors in every phase: what the end of their creator means to them, and of a group."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import shoal
from shoal.util.placement_group import placement_group, remove_placement_group
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.cluster.drivers import DRIVER_DEADLINE_S, started_driver
from tests.cluster.fates import Story, Subject, died, listed_cause, nothing_left, wait_for
from tests.cluster.remote_code import Counter, pass_gate
from tests.cluster.waiting import until

pytestmark = pytest.mark.usefixtures("settled")

ROOT = Path(__file__).parents[2]
NAME = "detached subject"

CREATOR = f"""
    import sys
    sys.path.insert(0, {str(ROOT)!r})
    import shoal
    from tests.cluster.fates import Story, Subject, wait_for
    from tests.cluster.remote_code import pass_gate
    shoal.init(namespace="tests", log_to_driver=False)
    detached = Subject.options(name={NAME!r}, lifetime="detached")
    story = Story("FOLDER")
    subject = CREATE
    print("ready")
    pass_gate("FOLDER/end")
"""
WITH_ARGUMENT = 'detached.remote("FOLDER", wait_for.remote("FOLDER/argument"))'
AT_ONCE = 'detached.remote("FOLDER")'


def creator(story: Story, create: str) -> str:
    return CREATOR.replace("CREATE", create).replace("FOLDER", str(story.folder))


def answers_by_name(story: Story, start: int = 1) -> None:
    story.let(start)
    assert shoal.get(shoal.get_actor(NAME).pid.remote(), timeout=20) == story.pid(start)
    shoal.kill(shoal.get_actor(NAME))
    nothing_left(story)


# ---- before it starts


@pytest.mark.parametrize("in_order", [False, True], ids=["killed", "ended"])
def test_a_detached_actor_without_its_arguments_is_dead_with_the_reason(
    one_node, tmp_path, in_order
):
    story = Story(tmp_path)
    with started_driver(creator(story, WITH_ARGUMENT), one_node.address) as driver:
        assert driver.line() == "ready"
        held = shoal.get_actor(NAME)
        waiting = held.pid.remote()
        if in_order:
            (tmp_path / "end").touch()
            assert driver.process.wait(DRIVER_DEADLINE_S) == 0
        else:
            driver.kill()
    error = died(lambda: shoal.get(waiting, timeout=20))
    assert error.cause.name == "OWNER_DIED"
    assert "before the constructor's arguments were there" in str(error)
    assert listed_cause(one_node.address, NAME) == "OWNER_DIED"
    nothing_left(story)
    with pytest.raises(ValueError, match=NAME):
        shoal.get_actor(NAME)


@shoal.remote(num_cpus=0)
class Creator:
    def create(self, folder: str) -> int:
        argument = wait_for.remote(f"{folder}/argument")
        Subject.options(name=NAME, lifetime="detached").remote(folder, argument)
        return os.getpid()


def test_a_worker_may_be_the_creator_that_ends_too_early(one_node, tmp_path):
    story = Story(tmp_path)
    made_by = Creator.remote()
    pid = shoal.get(made_by.create.remote(str(tmp_path)))
    waiting = shoal.get_actor(NAME).pid.remote()
    os.kill(pid, signal.SIGKILL)
    assert died(lambda: shoal.get(waiting, timeout=20)).cause.name == "OWNER_DIED"
    nothing_left(story)


def test_creating_does_not_wait_for_the_arguments(one_node, tmp_path):
    story = Story(tmp_path)
    argument = wait_for.remote(f"{tmp_path}/argument")
    subject = Subject.options(name=NAME, lifetime="detached").remote(str(tmp_path), argument)
    waiting = subject.pid.remote()
    with pytest.raises(ValueError, match=NAME):
        Subject.options(name=NAME).remote(str(tmp_path))
    (tmp_path / "argument").touch()
    assert story.pid(1)
    story.let(1)
    assert shoal.get(waiting, timeout=20) == story.pid(1)
    shoal.kill(subject)
    nothing_left(story)


@shoal.remote(max_retries=0)
def fail(path: str) -> None:
    pass_gate(path)
    raise LookupError("no such argument")


@pytest.mark.parametrize("early", [True, False])
def test_an_argument_that_fails_is_the_end_of_a_detached_actor(one_node, tmp_path, early):
    argument = fail.remote(f"{tmp_path}/argument")
    if early:
        (tmp_path / "argument").touch()
        shoal.wait([argument], timeout=20)
    subject = Subject.options(name=NAME, lifetime="detached").remote(str(tmp_path), argument)
    waiting = subject.pid.remote()
    (tmp_path / "argument").touch()
    error = died(lambda: shoal.get(waiting, timeout=20))
    assert error.cause.name == "CREATION_FAILED"
    assert "no such argument" in str(error)


def test_a_detached_actor_that_waits_for_room_is_created_without_its_creator(one_node, tmp_path):
    story = Story(tmp_path)
    everything = Counter.options(num_cpus=4).remote()
    shoal.get(everything.pid.remote())
    with started_driver(creator(story, AT_ONCE), one_node.address) as driver:
        assert driver.line() == "ready"
        driver.kill()
    assert story.pids() == []
    shoal.kill(everything)
    answers_by_name(story)


# ---- while it starts


def test_a_detached_actor_in_its_constructor_outlives_its_creator(one_node, tmp_path):
    story = Story(tmp_path)
    with started_driver(creator(story, AT_ONCE), one_node.address) as driver:
        assert driver.line() == "ready"
        story.pid(1)
        driver.kill()
    answers_by_name(story)


def test_a_detached_actor_that_restarts_outlives_its_creator(one_node, tmp_path):
    story = Story(tmp_path)
    with started_driver(creator(story, AT_ONCE), one_node.address) as driver:
        assert driver.line() == "ready"
        story.let(1)
        os.kill(shoal.get(shoal.get_actor(NAME).pid.remote()), signal.SIGKILL)
        story.pid(2)
        driver.kill()
    answers_by_name(story, 2)


# ---- its placement group


@pytest.mark.parametrize("lifetime", [None, "detached"])
@pytest.mark.parametrize("phase", ["starting", "restarting"])
def test_an_actor_that_starts_in_a_group_ends_with_it(one_node, tmp_path, lifetime, phase):
    story = Story(tmp_path)
    group = placement_group([{"CPU": 1}])
    shoal.get(group.ready(), timeout=20)
    subject = Subject.options(
        name=NAME, lifetime=lifetime, scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0)
    ).remote(str(tmp_path))
    waiting = subject.pid.remote()
    pid = story.pid(1)
    if phase == "restarting":
        story.let(1)
        shoal.get(waiting, timeout=20)
        os.kill(pid, signal.SIGKILL)
        story.pid(2)
        waiting = subject.pid.remote()
    remove_placement_group(group)
    error = died(lambda: shoal.get(waiting, timeout=20))
    assert error.cause.name == "PLACEMENT_GROUP_REMOVED"
    nothing_left(story)
    until(lambda: listed_cause(one_node.address, NAME), "the list says that it is dead")
    assert listed_cause(one_node.address, NAME) == "PLACEMENT_GROUP_REMOVED"
    assert len(story.pids()) == (1 if phase == "starting" else 2), "it was not started again"
