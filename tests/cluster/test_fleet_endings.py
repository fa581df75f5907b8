"""One agent of a fleet ends as a real one does; the process and its other agents stay."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import shoal
from cluster_api.v1 import agent_pb2, agent_pb2_grpc
from cluster_common.transport import endpoints
from shoal.cluster_utils import Cluster, Fleet
from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.cluster.waiting import lives_on, process_lives, until

NODES = 4
DEADLINE_S = 2.0
ANSWER_S = 20
EXPECTED, DRAINED_IDLE, PREEMPTED = 1, 4, 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as made:
        made.connect()
        yield made


@pytest.fixture
def fleet(cluster: Cluster) -> Iterator[Fleet]:
    with Fleet(cluster.address, NODES, rack_size=0, connections=1, leases=True) as made:
        yield made


@shoal.remote(num_cpus=1)
class Anything:
    def call(self) -> str:
        return "a faked worker answers None instead"


def on(node_id: str) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node_id, soft=True)


def row(node_id: str) -> dict[str, object]:
    return next(each for each in shoal.nodes() if each["NodeID"] == node_id)


def until_dead(node_id: str) -> dict[str, object]:
    return until(lambda: (found := row(node_id)) and not found["Alive"] and found, "it is dead")


def only_this_one_ended(fleet: Fleet, node_id: str) -> None:
    until(lambda: fleet.status().running == NODES - 1, "its session ended")
    others = [each for each in fleet.node_ids() if each != node_id]
    lives_on(lambda: all(row(each)["Alive"] for each in others), "another node ended too", 0.3)
    assert process_lives(fleet.pid)
    actor = Anything.options(scheduling_strategy=on(others[0])).remote()
    assert shoal.get(actor.call.remote(), timeout=ANSWER_S) is None


def test_a_drained_agent_takes_nothing_new_and_is_gone_at_its_deadline(
    cluster: Cluster, fleet: Fleet
) -> None:
    victim = fleet.node_ids()[0]
    actor = Anything.options(
        scheduling_strategy=on(victim), max_restarts=1, max_task_retries=-1
    ).remote()
    assert shoal.get(actor.call.remote(), timeout=ANSWER_S) is None
    started = time.monotonic()
    cluster.drain(victim, reason="preemption", deadline_s=DEADLINE_S)
    until(lambda: row(victim)["Draining"] or not row(victim)["Alive"], "it drains")
    dead = until_dead(victim)
    # The deadline is wall-clock time: an agent that takes it for its own would wait for years.
    assert time.monotonic() - started < DEADLINE_S + ANSWER_S
    assert dead["DeathReason"] == PREEMPTED, dead["DeathReasonMessage"]
    assert shoal.get(actor.call.remote(), timeout=ANSWER_S) is None
    assert fleet.status().workers == 1
    only_this_one_ended(fleet, victim)


def test_an_idle_agent_goes_at_once_when_it_is_drained(cluster: Cluster, fleet: Fleet) -> None:
    victim = fleet.node_ids()[1]
    cluster.drain(victim, reason="idle", deadline_s=600)
    assert until_dead(victim)["DeathReason"] == DRAINED_IDLE
    only_this_one_ended(fleet, victim)


def test_an_agent_that_is_told_to_stop_says_goodbye_and_stops(fleet: Fleet) -> None:
    victim = fleet.node_ids()[2]
    found = row(victim)
    address = f"{found['NodeManagerAddress']}:{found['NodeManagerPort']}"
    with endpoints.make_blocking_channel(address) as channel:
        stub = agent_pb2_grpc.AgentServiceStub(channel)
        stub.Shutdown(agent_pb2.ShutdownRequest(reason="no more needed"), timeout=ANSWER_S)
    dead = until_dead(victim)
    assert (dead["DeathReason"], dead["DeathReasonMessage"]) == (EXPECTED, "no more needed")
    only_this_one_ended(fleet, victim)
