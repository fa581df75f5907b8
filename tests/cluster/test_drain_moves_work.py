"""FIELD_REPORTS O-18: a drained node gets nothing new, its work moves, and errors say why."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import shoal
from shoal.exceptions import ActorDiedError, NodeDiedError
from shoal.gcs_calls import GcsCalls
from shoal.util.placement_group import (
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from shoal.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)
from tests.cluster.remote_code import Counter, pass_gate
from tests.cluster.waiting import lives_on, until, until_gone

DEADLINE_S = 2.0
PREEMPTED, DRAINED_IDLE, EXPECTED = 5, 4, 1


def on(node: object, *, soft: bool = True) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node.node_id, soft=soft)


def row(node_id: str) -> dict[str, object]:
    return next(each for each in shoal.nodes() if each["NodeID"] == node_id)


@shoal.remote(num_cpus=1)
def where() -> str:
    return shoal.get_runtime_context().get_node_id()


@shoal.remote(num_cpus=1)
def gated_where(path: str) -> str:
    Path(path + ".runs").touch()
    pass_gate(path)
    return shoal.get_runtime_context().get_node_id()


@pytest.fixture
def cluster(make_cluster):
    cluster = make_cluster(num_cpus=0)
    cluster.add_node(num_cpus=2)
    cluster.add_node(num_cpus=2)
    return cluster


@pytest.fixture
def a(cluster):
    return cluster.worker_nodes[0]


@pytest.fixture
def b(cluster):
    return cluster.worker_nodes[1]


def test_work_goes_elsewhere_and_the_restart_budget_stays(cluster, a, b):
    actor = Counter.options(
        num_cpus=1, scheduling_strategy=on(a), max_restarts=1, max_task_retries=-1
    ).remote()
    assert shoal.get(actor.node.remote()) == a.node_id
    first_pid = shoal.get(actor.pid.remote())
    # Leases of the driver on both nodes are warm: they must not be used any more either.
    assert {a.node_id, b.node_id} >= set(shoal.get([where.remote() for _ in range(20)]))
    cluster.drain(a, reason="preemption", deadline_s=DEADLINE_S)
    assert row(a.node_id)["Draining"]
    answers = [where.remote() for _ in range(100)]
    group = placement_group([{"CPU": 1}])
    assert set(shoal.get(answers)) == {b.node_id}
    shoal.get(group.ready(), timeout=20)
    assert set(placement_group_table(group)["bundles_to_node_id"].values()) == {b.node_id}
    remove_placement_group(group)
    until_gone(a.pid)
    assert shoal.get(actor.node.remote()) == b.node_id
    second_pid = shoal.get(actor.pid.remote())
    assert second_pid != first_pid
    os.kill(second_pid, signal.SIGKILL)
    # Its one restart is still there for this crash.
    assert shoal.get(actor.node.remote()) == b.node_id
    third_pid = shoal.get(actor.pid.remote())
    assert third_pid not in (first_pid, second_pid)
    os.kill(third_pid, signal.SIGKILL)
    until_gone(third_pid)
    with pytest.raises(ActorDiedError) as caught:
        shoal.get(actor.pid.remote())
    assert caught.value.cause.name == "WORKER_DIED"
    dead = row(a.node_id)
    assert (dead["Alive"], dead["DeathReason"]) == (False, PREEMPTED)
    assert "preempted" in dead["DeathReasonMessage"]


def test_errors_of_what_cannot_move_say_preempted(cluster, a, gate):
    actor = Counter.options(num_cpus=1, scheduling_strategy=on(a)).remote()
    assert shoal.get(actor.node.remote()) == a.node_id
    task = gated_where.options(scheduling_strategy=on(a), max_retries=0).remote(gate.path)
    until(Path(gate.path + ".runs").exists, "the task runs")
    cluster.drain(a, deadline_s=0.5)
    with pytest.raises(NodeDiedError, match="preempted") as task_error:
        shoal.get(task, timeout=20)
    assert task_error.value.cause.name == "PREEMPTED"
    assert task_error.value.node_id == a.node_id
    with pytest.raises(ActorDiedError, match="PREEMPTED") as actor_error:
        shoal.get(actor.add.remote(), timeout=20)
    assert actor_error.value.preempted
    assert actor_error.value.cause.name == "PREEMPTED"
    assert actor_error.value.node_id == a.node_id


def test_a_draining_node_that_crashes_was_preempted_too(cluster, a, b):
    actor = Counter.options(
        num_cpus=1, scheduling_strategy=on(a), max_restarts=1, max_task_retries=-1
    ).remote()
    doomed = Counter.options(num_cpus=1, scheduling_strategy=on(a)).remote()
    assert shoal.get([actor.node.remote(), doomed.node.remote()]) == [a.node_id] * 2
    cluster.drain(a, deadline_s=600)
    a.kill()
    assert shoal.get(actor.node.remote(), timeout=20) == b.node_id
    os.kill(shoal.get(actor.pid.remote()), signal.SIGKILL)
    assert shoal.get(actor.node.remote(), timeout=20) == b.node_id
    with pytest.raises(ActorDiedError) as caught:
        shoal.get(doomed.add.remote(), timeout=20)
    assert caught.value.preempted
    assert until(lambda: row(a.node_id)["DeathReason"], "the cause is recorded") == PREEMPTED


def test_a_detached_actor_moves_and_the_gcs_remembers_the_budget(cluster, a, b):
    actor = Counter.options(
        num_cpus=1, name="moving", lifetime="detached", scheduling_strategy=on(a), max_restarts=1
    ).remote()
    assert shoal.get(actor.node.remote()) == a.node_id
    cluster.drain(a, deadline_s=0.5)
    until_gone(a.pid)

    def moved() -> bool:
        try:
            return shoal.get(actor.node.remote(), timeout=20) == b.node_id
        except shoal.exceptions.RayActorError:
            return False

    until(moved, "the actor runs on the other node")
    cluster.kill_gcs()
    cluster.start_gcs()
    pid = shoal.get(actor.pid.remote(), timeout=20)
    os.kill(pid, signal.SIGKILL)
    until(
        lambda: (
            shoal.get(shoal.get_actor("moving").pid.remote(), timeout=20) != pid
            if _answers("moving")
            else False
        ),
        "it restarted after the crash",
    )
    shoal.kill(actor)


def _answers(name: str) -> bool:
    try:
        shoal.get(shoal.get_actor(name).pid.remote(), timeout=20)
    except (shoal.exceptions.RayActorError, ValueError):
        return False
    return True


def test_running_work_finishes_and_an_empty_node_goes_before_the_deadline(cluster, a, gate):
    task = gated_where.options(scheduling_strategy=on(a), max_retries=0).remote(gate.path)
    until(Path(gate.path + ".runs").exists, "the task runs")
    cluster.drain(a, deadline_s=600)
    lives_on(a.is_alive, "the node went while a task ran", 0.3)
    gate.open()
    assert shoal.get(task) == a.node_id
    until_gone(a.pid)


def test_an_idle_drain_is_declined_by_a_busy_node_and_ends_an_idle_one(cluster, a):
    actor = Counter.options(num_cpus=1, scheduling_strategy=on(a)).remote()
    assert shoal.get(actor.node.remote()) == a.node_id
    with pytest.raises(ValueError, match="not idle: 1 leases"):
        cluster.drain(a, reason="idle")
    assert not row(a.node_id)["Draining"]
    assert shoal.get(actor.add.remote()) == 1
    shoal.kill(actor)

    def accepted() -> bool:
        try:
            cluster.drain(a, reason="idle")
        except ValueError:
            return False  # its worker still ends
        return True

    until(accepted, "the idle node accepts")
    until_gone(a.pid)
    until(lambda: not row(a.node_id)["Alive"], "the node is listed as dead")
    assert row(a.node_id)["DeathReason"] == DRAINED_IDLE


def test_an_unknown_and_a_dead_node_are_errors(cluster, a):
    with pytest.raises(ValueError, match="not known"):
        cluster.drain("ab" * 16)
    with pytest.raises(ValueError, match="hexadecimal"):
        cluster.drain("xyz")
    a.kill()
    until(lambda: not row(a.node_id)["Alive"], "the node is listed as dead")
    with pytest.raises(ValueError, match=r"dead: .*refuses connections.*last contact"):
        cluster.drain(a)


def test_an_unreachable_node_is_drained_when_it_is_heard_again(cluster, a, b):
    cluster.faults.partition(a)
    started = time.monotonic()
    cluster.drain(a, deadline_s=600)
    # Bounded, however long the agent stays silent (DRAIN_ANSWER_MS_MAX is 2 s).
    assert time.monotonic() - started < 15
    assert row(a.node_id)["Draining"]
    assert set(shoal.get([where.remote() for _ in range(10)], timeout=20)) == {b.node_id}
    # The order is durable: a new life of the GCS gives it again.
    cluster.kill_gcs()
    cluster.start_gcs()
    cluster.faults.heal(a)
    until_gone(a.pid)
    assert until(lambda: row(a.node_id)["DeathReason"], "the cause is recorded") == PREEMPTED


def test_a_drain_that_hangs_does_not_block_the_end_of_the_gcs(cluster, a):
    cluster.faults.drop("drain", a)
    with GcsCalls(cluster.gcs_address) as gcs:
        import threading

        asked = threading.Thread(
            target=lambda: _drain_quietly(gcs, bytes.fromhex(a.node_id)), daemon=True
        )
        asked.start()
        cluster.faults.wait_met("drain", a)
        pid = cluster.gcs_pid
        os.kill(pid, signal.SIGTERM)
        until_gone(pid, 10)
        asked.join(20)


def _drain_quietly(gcs: GcsCalls, node_id: bytes) -> None:
    try:
        gcs.drain(node_id, "preemption", 600)
    except (RuntimeError, ValueError, OSError):
        return


def test_groups_of_a_drained_node_are_placed_again(cluster, a, b):
    group = placement_group(
        [{"CPU": 1}], bundle_label_selector=[{"shoal.io/node-id": f"in({a.node_id},{b.node_id})"}]
    )
    shoal.get(group.ready(), timeout=20)
    first = next(iter(placement_group_table(group)["bundles_to_node_id"].values()))
    holder, other = (a, b) if first == a.node_id else (b, a)
    strategy = PlacementGroupSchedulingStrategy(group)
    actor = Counter.options(
        scheduling_strategy=strategy, max_restarts=1, max_task_retries=-1
    ).remote()
    assert shoal.get(actor.node.remote()) == holder.node_id
    cluster.drain(holder, deadline_s=0.5)
    assert shoal.get(where.options(scheduling_strategy=strategy).remote(), timeout=20) == (
        other.node_id
    )
    assert shoal.get(actor.node.remote(), timeout=20) == other.node_id
    remove_placement_group(group)
