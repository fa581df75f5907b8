"""A fleet of faked nodes is a cluster to the GCS and to a driver."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import shoal
from shoal.cluster_utils import Cluster, Fleet
from shoal.gcs_calls import GcsCalls
from shoal.util.placement_group import placement_group, remove_placement_group
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.cluster.waiting import until

NODES = 50
RACK_NODES = 10
READY_S = 20
QUIET_WINDOW_S = 2.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as made:
        made.connect()
        yield made


@pytest.fixture(scope="module")
def fleet(cluster: Cluster) -> Iterator[Fleet]:
    with Fleet(
        cluster.address,
        NODES,
        rack_size=RACK_NODES,
        connections=5,
        resources={"CPU": 4, "slot": 1},
        leases=True,
    ) as made:
        yield made


@shoal.remote(num_cpus=1)
class Anything:
    def call(self) -> str:
        return "a faked worker answers None instead"


def alive_ids(cluster: Cluster) -> set[str]:
    with GcsCalls(cluster.address) as gcs:
        found: set[str] = set()
        gcs.wait_for_nodes(lambda nodes: found.update(key.hex() for key in nodes) or True, 5)
        return found


def test_all_agents_are_nodes_of_the_cluster(cluster: Cluster, fleet: Fleet) -> None:
    assert set(fleet.node_ids()) <= alive_ids(cluster)
    assert shoal.cluster_resources()["slot"] == NODES


def test_a_group_gets_a_rack_and_an_actor_answers(fleet: Fleet) -> None:
    group = placement_group(
        [{"slot": 1, "CPU": 1}] * RACK_NODES,
        strategy="STRICT_SPREAD",
        topology_strategy={"rack": "STRICT_PACK"},
    )
    shoal.get(group.ready(), timeout=READY_S)
    assert fleet.status().bundles == RACK_NODES
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    actor = Anything.options(scheduling_strategy=strategy).remote()
    assert shoal.get([actor.call.remote() for _ in range(10)], timeout=READY_S) == [None] * 10
    assert fleet.status().calls == 10
    remove_placement_group(group)
    until(lambda: fleet.status().bundles == 0 and fleet.status().workers == 0, "all given back")


def test_an_idle_fleet_says_nothing(fleet: Fleet) -> None:
    def quiet() -> bool:
        before = fleet.status()
        time.sleep(QUIET_WINDOW_S)  # The window in which nothing may happen.
        after = fleet.status()
        pings = after.messages_in - before.messages_in
        # A ping of a silent session each 30 s is all there is, and its answer.
        return (
            pings == after.messages_out - before.messages_out
            and after.bytes_in - before.bytes_in < 64 * (pings + 1)
        )

    until(quiet, "two seconds without news")


def test_a_killed_agent_is_a_dead_node(cluster: Cluster, fleet: Fleet) -> None:
    victim = fleet.node_ids()[-1]
    fleet.kill_node(victim)
    until(lambda: victim not in alive_ids(cluster), "the node is dead")
    with pytest.raises(ValueError, match="no agent of this fleet"):
        fleet.kill_node("00")


def test_all_nodes_die_with_the_process(cluster: Cluster, fleet: Fleet) -> None:
    ids = set(fleet.node_ids())
    fleet.kill()
    until(lambda: not ids & alive_ids(cluster), "all nodes of the fleet are dead")
