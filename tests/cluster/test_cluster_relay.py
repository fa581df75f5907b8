"""Nodes that join through another agent, and what becomes of their work when that one ends."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

import shoal
from shoal.cluster_utils import Cluster, ClusterNode
from shoal.gcs_calls import GcsCalls
from shoal.util.placement_group import (
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.cluster.conftest import everything_free
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import lives_on, until

RELAYED = 3
WORK_S = 30
GONE = "127.0.0.1:1"


def streams(cluster: Cluster) -> int:
    """Session streams that the GCS has open."""
    with GcsCalls(cluster.gcs_address) as gcs:
        return gcs.status().counters["subscriptions.node_changes"]


def alive_ids() -> set[str]:
    return {node["NodeID"] for node in shoal.nodes() if node["Alive"]}


def rack(cluster: Cluster, **relay: object) -> tuple[ClusterNode, list[ClusterNode]]:
    """A relay without CPUs and nodes that joined through it."""
    relaying = cluster.add_node(num_cpus=0, **relay)
    nodes = [
        cluster.add_node(wait=False, num_cpus=1, resources={"slot": 1}, via=relaying)
        for _ in range(RELAYED)
    ]
    cluster.wait_for_nodes()
    until(lambda: streams(cluster) == 3, "the head's stream, the relay's own, and the shared one")
    return relaying, nodes


def actors_on_all() -> list[object]:
    return [Counter.options(num_cpus=0, resources={"slot": 1}).remote() for _ in range(RELAYED)]


def test_tasks_actors_and_groups_run_on_relayed_nodes(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(num_cpus=0)
    _, nodes = rack(cluster)

    @shoal.remote
    def where() -> str:
        return shoal.get_runtime_context().get_node_id()

    ids = {node.node_id for node in nodes}
    assert set(shoal.get([where.remote() for _ in range(20)], timeout=WORK_S)) <= ids
    actors = actors_on_all()
    assert shoal.get([actor.add.remote() for actor in actors], timeout=WORK_S) == [1] * RELAYED
    group = placement_group([{"CPU": 1}] * RELAYED, strategy="STRICT_SPREAD")
    shoal.get(group.ready(), timeout=WORK_S)
    assert set(placement_group_table(group)["bundles_to_node_id"].values()) == ids
    in_group = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    found = shoal.get(where.options(scheduling_strategy=in_group).remote(), timeout=WORK_S)
    assert found == placement_group_table(group)["bundles_to_node_id"][0]
    remove_placement_group(group)
    del actors
    until(everything_free, "everything is free again")
    cluster.check_ledger()


ENDINGS = {
    "killed": ClusterNode.kill,
    "stopped": ClusterNode.stop,
    "drained": lambda relay: relay.send(signal.SIGTERM),
}


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_nodes_outlive_their_relay_and_actors_notice_nothing(
    make_cluster: Callable[..., Cluster], end: Callable[[ClusterNode], None]
) -> None:
    cluster = make_cluster(num_cpus=0)
    relay, nodes = rack(cluster)
    actors = actors_on_all()
    pids = shoal.get([actor.pid.remote() for actor in actors], timeout=WORK_S)
    ids = {node.node_id for node in (cluster.head_node, *nodes)}
    end(relay)
    until(lambda: alive_ids() == ids, "the relay is dead and nobody else")
    until(lambda: streams(cluster) == 1 + RELAYED, "each node has a stream of its own")
    assert shoal.get([actor.pid.remote() for actor in actors], timeout=WORK_S) == pids
    group = placement_group([{"CPU": 1}] * RELAYED, strategy="STRICT_SPREAD")
    shoal.get(group.ready(), timeout=WORK_S)
    assert alive_ids() == ids


def test_a_relayed_node_that_dies_is_the_only_one(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(num_cpus=0)
    relay, nodes = rack(cluster)
    lost, *staying = nodes
    lost.kill()
    ids = {node.node_id for node in (cluster.head_node, relay, *staying)}
    until(lambda: alive_ids() == ids, "one node is dead", deadline_s=4)
    assert streams(cluster) == 3
    row = next(node for node in shoal.nodes() if node["NodeID"] == lost.node_id)
    assert "refuses connections" in row["DeathReasonMessage"]


def test_a_node_whose_relay_is_not_there_joins_directly(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster(num_cpus=0)
    node = cluster.add_node(num_cpus=1, via=GONE)
    assert node.node_id in alive_ids()
    assert streams(cluster) == 2
    actor = Counter.remote()
    assert shoal.get(actor.add.remote(), timeout=WORK_S) == 1


def test_relayed_nodes_find_the_next_life_of_the_gcs(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(num_cpus=0)
    relay, nodes = rack(cluster)
    actors = actors_on_all()
    pids = shoal.get([actor.pid.remote() for actor in actors], timeout=WORK_S)
    group = placement_group([{"CPU": 1}] * RELAYED, strategy="STRICT_SPREAD")
    shoal.get(group.ready(), timeout=WORK_S)
    placed = placement_group_table(group)["bundles_to_node_id"]
    cluster.kill_gcs()
    assert shoal.get([actor.pid.remote() for actor in actors], timeout=WORK_S) == pids
    cluster.start_gcs()
    ids = {node.node_id for node in (cluster.head_node, relay, *nodes)}
    cluster.wait_for_nodes()
    until(lambda: streams(cluster) >= 3, "the nodes are back")
    lives_on(lambda: alive_ids() == ids, "a node that was here is lost", 0.5)
    assert shoal.get([actor.pid.remote() for actor in actors], timeout=WORK_S) == pids
    assert placement_group_table(group)["bundles_to_node_id"] == placed
    remove_placement_group(group)
    cluster.check_ledger()


def test_faults_of_a_relayed_node_are_its_own(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(num_cpus=0)
    relay, nodes = rack(cluster)
    cluster.faults.fail("prepare", nodes[0])
    cluster.faults.delay("NodeSessionService/Connect", nodes[1], 0.05)
    group = placement_group([{"CPU": 1}] * RELAYED, strategy="STRICT_SPREAD")
    shoal.get(group.ready(), timeout=WORK_S)
    cluster.faults.wait_met("prepare", nodes[0])
    # It is the relay that meets it: what it reads from that node, and from no other.
    cluster.faults.wait_met("NodeSessionService/Connect", relay)
    cluster.faults.clear()
    remove_placement_group(group)
    until(everything_free, "everything is free again")
    cluster.check_ledger()
