"""Who is dead and who is only slow: FIELD_REPORTS O-19, with processes that really hang."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path

import pytest

import shoal
from shoal.cluster_utils import Cluster
from shoal.exceptions import ActorDiedError, NodeDiedError
from shoal.gcs_calls import GcsCalls
from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.cluster.conftest import NAMESPACE
from tests.cluster.remote_code import Counter, increment, pass_gate
from tests.cluster.waiting import lives_on, until, until_gone

PING_INTERVAL_S = 0.4
MISSED_PINGS, CRASHED = 3, 2


@shoal.remote(num_cpus=0, max_retries=0)
def held(path: str) -> None:
    Path(path + ".runs").touch()
    pass_gate(path)


@pytest.fixture
def cluster():
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1}, ping_interval_s=PING_INTERVAL_S
    )
    try:
        for _ in range(3):
            cluster.add_node(wait=False, num_cpus=1)
        cluster.wait_for_nodes()
        cluster.connect(namespace=NAMESPACE)
        yield cluster
    finally:
        cluster.shutdown()


def on(node: object, *, soft: bool = False) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node.node_id, soft=soft)


def row(node_id: str) -> dict[str, object]:
    return next(each for each in shoal.nodes() if each["NodeID"] == node_id)


def alive_ids() -> set[str]:
    return {node["NodeID"] for node in shoal.nodes() if node["Alive"]}


def bound_s(cluster) -> float:
    """Printed by the GCS: how long after its last word a hanging node is declared dead."""
    with GcsCalls(cluster.gcs_address) as gcs:
        return gcs.status(verbose=True).counters["liveness.silence_bound_ms"] / 1_000


def death_of(actor: object) -> ActorDiedError | None:
    try:
        shoal.get(actor.add.remote(), timeout=20)
    except ActorDiedError as error:
        return error
    return None


def pause(seconds: float) -> None:
    """Time for a stopped process to be late: the subject of these tests, nothing is awaited."""
    threading.Event().wait(seconds)


def test_a_gcs_that_hangs_blames_no_node(cluster):
    """First run: the checker was blocked for three times its own time-out."""
    everyone = alive_ids()
    actor = Counter.options(scheduling_strategy=on(cluster.worker_nodes[0])).remote()
    assert shoal.get(actor.add.remote()) == 1
    bound = bound_s(cluster)
    pid = cluster.gcs_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        # What runs does not notice.
        assert shoal.get(actor.add.remote()) == 2
        pause(3 * bound)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert alive_ids() == everyone
    lives_on(lambda: alive_ids() == everyone, "a healthy node was declared dead", bound)
    assert shoal.get(actor.add.remote()) == 3


def test_an_agent_that_hangs_is_dead_within_the_printed_bound_and_the_error_says_how(cluster):
    """Second run: one agent is stopped; the others, and what runs on them, are not touched."""
    hanging, *others = cluster.worker_nodes
    actor = Counter.options(scheduling_strategy=on(hanging)).remote()
    assert shoal.get(actor.node.remote()) == hanging.node_id
    bound = bound_s(cluster)
    hanging.send(signal.SIGSTOP)
    try:
        dead = until(
            lambda: (found := row(hanging.node_id)) and not found["Alive"] and found,
            "the hanging node is dead",
            bound + 15,
        )
        message = dead["DeathReasonMessage"]
        assert dead["DeathReason"] == MISSED_PINGS, message
        assert re.search(
            r"3 pings in a row unanswered, its loop lag at the last answer was \d+ ms;"
            r" own loop lag \d+ ms; last contact [\d.]+ s ago",
            message,
        ), message
        heard_s = float(re.search(r"last contact ([\d.]+) s ago", message)[1])
        # The bound holds unless the checker itself was late, which it then says.
        lag_s = int(re.search(r"own loop lag (\d+) ms", message)[1]) / 1_000
        assert heard_s <= bound + lag_s + 5, message
        # Its worker was not stopped, and answers until the driver hears of the verdict.
        error = until(lambda: death_of(actor), "the driver hears of the verdict")
        assert error.cause.name == "NODE_DIED"
        assert error.node_id == hanging.node_id
        for part in ("MISSED_PINGS", hanging.node_id, "last contact"):
            assert part in str(error)
        assert alive_ids() == {n.node_id for n in [cluster.head_node, *others]}
    finally:
        hanging.send(signal.SIGCONT)
    # Back among the living it is told so, and ends with its workers.
    until_gone(hanging.pid)


def test_a_gcs_that_comes_and_goes_blames_no_node(cluster):
    """Third run: stopped in order, killed, hung and then killed; every time started again."""
    everyone = alive_ids()
    actor = Counter.options(scheduling_strategy=on(cluster.worker_nodes[0])).remote()
    for number, way in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP), start=1):
        os.kill(cluster.gcs_pid, way)
        cluster.kill_gcs()
        cluster.start_gcs()
        assert alive_ids() == everyone
        assert shoal.get(actor.add.remote(), timeout=20) == number
    bound = bound_s(cluster)
    lives_on(lambda: alive_ids() == everyone, "a healthy node was declared dead", bound)


def test_a_short_stop_of_an_agent_is_forgiven(cluster):
    everyone = alive_ids()
    node = cluster.worker_nodes[0]
    node.send(signal.SIGSTOP)
    pause(PING_INTERVAL_S)
    node.send(signal.SIGCONT)
    lives_on(lambda: alive_ids() == everyone, "a node was blamed too early", bound_s(cluster))
    task = increment.options(scheduling_strategy=on(node)).remote(1)
    assert shoal.get(task, timeout=20) == 2


def test_a_node_that_is_cut_off_is_dead_for_all_and_ends_when_it_hears_so(cluster, gate):
    node = cluster.worker_nodes[0]
    moving = Counter.options(
        scheduling_strategy=on(node, soft=True), max_restarts=1, max_task_retries=-1
    ).remote()
    pid = shoal.get(moving.pid.remote(), timeout=20)
    assert shoal.get(moving.node.remote()) == node.node_id
    task = held.options(scheduling_strategy=on(node)).remote(gate.path)
    until(Path(gate.path + ".runs").exists, "the task runs")
    cluster.faults.partition(node)
    assert shoal.get(moving.node.remote(), timeout=30) != node.node_id
    with pytest.raises(NodeDiedError, match=r"MISSED_PINGS.*last contact"):
        shoal.get(task, timeout=20)
    assert row(node.node_id)["DeathReason"] == MISSED_PINGS
    assert node.is_alive()
    cluster.faults.heal(node)
    until_gone([node.pid, pid])
    assert shoal.get(moving.add.remote(), timeout=20) >= 1


def test_a_killed_agent_is_dead_at_once_and_the_errors_say_so(cluster, gate):
    node = cluster.worker_nodes[0]
    actor = Counter.options(scheduling_strategy=on(node)).remote()
    assert shoal.get(actor.node.remote()) == node.node_id
    task = held.options(scheduling_strategy=on(node)).remote(gate.path)
    until(Path(gate.path + ".runs").exists, "the task runs")
    detached = Counter.options(
        scheduling_strategy=on(node), name="lost", lifetime="detached"
    ).remote()
    assert shoal.get(detached.node.remote()) == node.node_id
    node.kill()
    for ref, error in ((actor.add.remote(), ActorDiedError), (task, NodeDiedError)):
        with pytest.raises(error) as caught:
            shoal.get(ref, timeout=20)
        assert caught.value.node_id == node.node_id
        assert re.search(r"died \(CRASHED\): .*last contact [\d.]+ s ago", str(caught.value))
    with pytest.raises(ActorDiedError) as of_detached:
        shoal.get(detached.add.remote(), timeout=20)
    assert re.search(r"died \(CRASHED\): .*last contact [\d.]+ s ago", str(of_detached.value))
    dead = until(
        lambda: (found := row(node.node_id)) and not found["Alive"] and found, "it is dead"
    )
    assert dead["DeathReason"] == CRASHED
    assert "refuses connections" in dead["DeathReasonMessage"]
