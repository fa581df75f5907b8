"""SIGTERM of an agent drains its node (FIELD_REPORTS O-18)."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

import shoal
from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.cluster.remote_code import Counter, pass_gate
from tests.cluster.waiting import until, until_gone

PREEMPTED, EXPECTED = 5, 1


@shoal.remote(num_cpus=1, max_retries=0)
def gated_where(path: str) -> str:
    Path(path + ".runs").touch()
    pass_gate(path)
    return shoal.get_runtime_context().get_node_id()


def row(node_id: str) -> dict[str, object]:
    return next(each for each in shoal.nodes() if each["NodeID"] == node_id)


def busy_node(cluster, **settings: str):
    return cluster.add_node(num_cpus=1, settings=settings)


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(num_cpus=0)


def test_what_runs_may_finish(cluster, gate):
    node = busy_node(cluster, stop_grace_s="60")
    task = gated_where.remote(gate.path)
    until(Path(gate.path + ".runs").exists, "the task runs")
    node.send(signal.SIGTERM)
    until(lambda: row(node.node_id)["Draining"], "the GCS knows that it drains")
    waiting = gated_where.remote(gate.path)
    gate.open()
    assert shoal.get(task, timeout=20) == node.node_id
    until_gone(node.pid)
    other = cluster.add_node(num_cpus=1)
    assert shoal.get(waiting, timeout=20) == other.node_id


def test_actors_move_when_the_grace_is_over(cluster):
    node = busy_node(cluster, stop_grace_s="0.5")
    other = cluster.add_node(num_cpus=1)
    actor = Counter.options(
        num_cpus=1,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=True),
        max_restarts=1,
        max_task_retries=-1,
    ).remote()
    assert shoal.get(actor.node.remote()) == node.node_id
    node.send(signal.SIGTERM)
    until_gone(node.pid)
    assert shoal.get(actor.node.remote(), timeout=20) == other.node_id
    assert until(lambda: row(node.node_id)["DeathReason"], "the cause is recorded") == PREEMPTED
    assert "SIGTERM" in row(node.node_id)["DeathReasonMessage"]


def test_an_idle_node_and_a_second_signal_end_at_once(cluster, gate):
    idle = busy_node(cluster, stop_grace_s="600")
    idle.send(signal.SIGTERM)
    until_gone(idle.pid)
    assert until(lambda: row(idle.node_id)["DeathReason"], "the cause is recorded") == EXPECTED
    busy = busy_node(cluster, stop_grace_s="600")
    gated_where.remote(gate.path)
    until(Path(gate.path + ".runs").exists, "the task runs")
    busy.send(signal.SIGTERM)
    until(lambda: row(busy.node_id)["Draining"], "the GCS knows that it drains")
    busy.send(signal.SIGTERM)
    until_gone(busy.pid)


def test_taking_a_node_off_a_test_cluster_is_fast_whatever_runs(cluster, gate):
    node = busy_node(cluster, stop_grace_s="600")
    gated_where.remote(gate.path)
    until(Path(gate.path + ".runs").exists, "the task runs")
    started = time.monotonic()
    cluster.remove_node(node)
    assert time.monotonic() - started < 10
