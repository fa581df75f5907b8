"""Nodes that end: in order, or by SIGKILL of their agent."""

from __future__ import annotations

import pytest

import shoal
from shoal.cluster_utils import Cluster, ClusterNode
from shoal.exceptions import ActorDiedError
from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.cluster.remote_code import Counter, pass_gate
from tests.cluster.waiting import process_lives, until, until_gone


def on(node: object, *, soft: bool = False) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node.node_id, soft=soft)


@shoal.remote(num_cpus=0)
def where() -> str:
    return shoal.get_runtime_context().get_node_id()


def joined(cluster: Cluster, **options: object) -> ClusterNode:
    """A new node, once the scheduler sends work to it (its view follows the GCS's)."""
    node = cluster.add_node(**options)
    until(lambda: runs_work(node), "the scheduler knows the node")
    return node


def runs_work(node: ClusterNode) -> bool:
    task = where.options(scheduling_strategy=on(node), max_retries=0)
    try:
        return shoal.get(task.remote()) == node.node_id
    except shoal.exceptions.RayError:
        return False


def alive_ids() -> set[str]:
    return {node["NodeID"] for node in shoal.nodes() if node["Alive"]}


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(num_cpus=1)


def test_what_ran_on_a_killed_node_ends_and_says_why(cluster):
    node = cluster.add_node(num_cpus=1)
    counter = Counter.options(scheduling_strategy=on(node)).remote()
    pid = shoal.get(counter.pid.remote())
    assert shoal.get(counter.node.remote()) == node.node_id
    node.kill()
    until_gone(pid)
    with pytest.raises(ActorDiedError) as caught:
        shoal.get(counter.add.remote())
    assert caught.value.cause.name == "NODE_DIED"
    assert caught.value.node_id == node.node_id
    until(lambda: alive_ids() == {cluster.head_node.node_id}, "the node is listed as dead")
    assert shoal.cluster_resources()["CPU"] == 1
    dead = next(each for each in shoal.nodes() if each["NodeID"] == node.node_id)
    assert not dead["Alive"]
    assert dead["Resources"] == {}
    assert dead["DeathReasonMessage"]


def test_restartable_actors_of_a_killed_node_move(cluster):
    node = joined(cluster, num_cpus=1)
    counters = [
        Counter.options(
            scheduling_strategy=on(node, soft=True), max_restarts=1, max_task_retries=-1
        ).remote()
        for _ in range(4)
    ]
    assert set(shoal.get([each.node.remote() for each in counters])) == {node.node_id}
    node.kill()
    moved = set(shoal.get([each.node.remote() for each in counters]))
    assert moved == {cluster.head_node.node_id}


def test_a_task_on_a_killed_node_runs_again_elsewhere(cluster, gate, tmp_path):
    node = joined(cluster, num_cpus=1, resources={"first": 1})

    def where(mark: str, path: str) -> str:
        from pathlib import Path

        identity = shoal.get_runtime_context().get_node_id()
        (Path(mark) / identity).touch()
        pass_gate(path)
        return identity

    task = shoal.remote(num_cpus=0, max_retries=1)(where)
    running = task.options(scheduling_strategy=on(node, soft=True)).remote(str(tmp_path), gate.path)
    until((tmp_path / node.node_id).exists, "the task runs on the node")
    node.kill()
    gate.open()
    assert shoal.get(running) == cluster.head_node.node_id


def test_a_node_removed_in_order_is_gone_for_all(cluster):
    node = cluster.add_node(num_cpus=2)
    assert shoal.cluster_resources()["CPU"] == 3
    pid = node.pid
    cluster.remove_node(node)
    assert not process_lives(pid)
    until(lambda: shoal.cluster_resources()["CPU"] == 1, "its resources are gone")


def test_an_agent_killed_with_twenty_workers_leaves_none(cluster):
    node = cluster.add_node(num_cpus=1)
    counters = [Counter.options(scheduling_strategy=on(node)).remote() for _ in range(20)]
    pids = shoal.get([counter.pid.remote() for counter in counters])
    node.kill()
    until_gone(pids)


def test_work_that_waited_for_room_runs_on_a_node_that_joins(cluster):
    waiting = Counter.options(resources={"rare": 1}).remote(1)
    answer = waiting.add.remote()
    assert shoal.wait([answer], timeout=0.1) == ([], [answer])
    node = cluster.add_node(num_cpus=1, resources={"rare": 1})
    assert shoal.get(answer) == 2
    assert shoal.get(waiting.node.remote()) == node.node_id


def test_hard_affinity_to_a_dead_node_is_an_error(cluster):
    node = cluster.add_node(num_cpus=1)
    strategy = on(node)
    node.kill()
    until(lambda: node.node_id not in alive_ids(), "the node is listed as dead")
    counter = Counter.options(scheduling_strategy=strategy).remote()
    with pytest.raises(shoal.exceptions.RayError):
        shoal.get(counter.add.remote(), timeout=20)
