"""Nodes that end: those of actors that are not alive yet or are restarting, those of owners."""

from __future__ import annotations

import os
import signal

import pytest

import shoal
from shoal.gcs_calls import agent_state
from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.cluster.fates import (
    Story,
    Subject,
    bring_to,
    died,
    listed_cause,
    nothing_left,
)
from tests.cluster.remote_code import Counter, pass_gate
from tests.cluster.waiting import until, until_gone


@pytest.fixture
def cluster(make_cluster):
    """The head has no room for subjects; two nodes have room for one each."""
    cluster = make_cluster(num_cpus=0)
    cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1)
    return cluster


def node_of(cluster: object, pid: int) -> object:
    """The node whose worker this is."""
    for node in cluster.worker_nodes:
        if node.is_alive() and any(w.pid == pid for w in agent_state(node.address).workers):
            return node
    raise AssertionError(f"no node has a worker {pid}")


# ---- its node


@pytest.mark.parametrize("lifetime", [None, "detached"])
def test_an_actor_in_its_constructor_starts_elsewhere_when_its_node_dies(
    cluster, tmp_path, lifetime
):
    story = Story(tmp_path)
    subject = Subject.options(max_restarts=1, lifetime=lifetime, name="s").remote(str(tmp_path))
    waiting = subject.pid.remote()
    first = story.pid(1)
    node_of(cluster, first).kill()
    second = story.pid(2)
    until_gone(first)
    story.let(2)
    assert shoal.get(waiting, timeout=20) == second
    if lifetime is None:
        os.kill(second, signal.SIGKILL)
        error = died(lambda: shoal.get(subject.pid.remote(), timeout=20))
        assert error.cause.name == "WORKER_DIED", "the lost start used up the one restart"


def test_an_actor_without_restarts_dies_with_the_node_of_its_constructor(cluster, tmp_path):
    story = Story(tmp_path)
    subject = Subject.options(max_restarts=0).remote(str(tmp_path))
    waiting = subject.pid.remote()
    node = node_of(cluster, story.pid(1))
    node.kill()
    error = died(lambda: shoal.get(waiting, timeout=20))
    assert (error.cause.name, error.node_id) == ("NODE_DIED", node.node_id)
    nothing_left(story)


@pytest.mark.parametrize("lifetime", [None, "detached"])
def test_an_actor_that_restarts_is_started_again_when_its_node_dies(cluster, tmp_path, lifetime):
    story = Story(tmp_path)
    subject = bring_to("restarting", story, max_restarts=2, lifetime=lifetime, name="s")
    waiting = subject.pid.remote()
    node_of(cluster, story.pid(2)).kill()
    story.let(3)
    assert shoal.get(waiting, timeout=20) == story.pid(3)
    assert len(story.pids()) == 3


def test_an_actor_that_waits_for_a_node_that_dies_is_placed_elsewhere(cluster, tmp_path):
    story = Story(tmp_path)
    nodes = list(cluster.worker_nodes)
    blockers = [
        Counter.options(
            num_cpus=1, scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        ).remote()
        for node in nodes
    ]
    shoal.get([blocker.pid.remote() for blocker in blockers])
    soft = NodeAffinitySchedulingStrategy(nodes[0].node_id, soft=True)
    subject = Subject.options(scheduling_strategy=soft).remote(str(tmp_path))
    waiting = subject.pid.remote()
    nodes[0].kill()
    shoal.kill(blockers[1])
    story.let(1)
    assert shoal.get(waiting, timeout=20) == story.pid(1)
    assert node_of(cluster, story.pid(1)) is nodes[1]


# ---- its owner's node


@shoal.remote(num_cpus=0)
class Owner:
    def own(self, phase: str, folder: str, on: str) -> None:
        strategy = NodeAffinitySchedulingStrategy(on, soft=True)
        self.subject = bring_to(phase, Story(folder), name="s", scheduling_strategy=strategy)


@shoal.remote(num_cpus=0, max_retries=0)
def own(phase: str, folder: str, on: str) -> None:
    strategy = NodeAffinitySchedulingStrategy(on, soft=True)
    subject = bring_to(phase, Story(folder), name="s", scheduling_strategy=strategy)
    (Story(folder).folder / "owned").touch()
    pass_gate(f"{folder}/never")
    del subject


@pytest.mark.parametrize("kind", ["actor", "task"])
@pytest.mark.parametrize("phase", ["no room", "no argument", "starting", "alive", "restarting"])
def test_an_actor_ends_when_its_owners_node_dies(cluster, tmp_path, kind, phase):
    story = Story(tmp_path)
    first, second = cluster.worker_nodes
    here = NodeAffinitySchedulingStrategy(first.node_id, soft=False)
    if kind == "actor":
        owner = Owner.options(scheduling_strategy=here).remote()
        shoal.get(owner.own.remote(phase, str(tmp_path), second.node_id))
    else:
        running = own.options(scheduling_strategy=here).remote(phase, str(tmp_path), second.node_id)
        until((tmp_path / "owned").exists, "the task owns the subject")
        assert shoal.wait([running], timeout=0) == ([], [running])
    held = shoal.get_actor("s")
    waiting = held.pid.remote()
    if phase == "alive":
        assert shoal.get(waiting, timeout=20) == story.pid(1)
    first.kill()
    if phase == "alive":
        until_gone(story.pids())
        waiting = held.pid.remote()
    assert died(lambda: shoal.get(waiting, timeout=20)).cause.name == "OWNER_DIED"
    nothing_left(story)
    until(lambda: listed_cause(cluster.address, "s"), "the list says that it is dead")
