"""Groups that lose a node, and groups that wait for one."""

from __future__ import annotations

import pytest

import shoal
from shoal.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import until


@pytest.fixture
def cluster(make_cluster):
    """A head without slots and two nodes with one slot each."""
    cluster = make_cluster(num_cpus=0)
    for rack in ("r1", "r1"):
        cluster.add_node(num_cpus=1, resources={"slot": 1}, labels={"rack": rack})
    return cluster


def nodes_of(group: PlacementGroup) -> list[str]:
    nodes = placement_group_table(group)["bundles_to_node_id"]
    return [nodes[index] for index in sorted(nodes)]


def state(group: PlacementGroup) -> str:
    return placement_group_table(group)["state"]


def test_only_the_lost_bundle_moves_and_its_actor_follows(cluster):
    group = placement_group(
        [{"slot": 1}] * 2, strategy="STRICT_SPREAD", topology_strategy={"rack": "STRICT_PACK"}
    )
    shoal.get(group.ready(), timeout=20)
    counters = [
        Counter.options(
            max_restarts=1,
            max_task_retries=-1,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, index),
        ).remote()
        for index in range(2)
    ]
    shoal.get([counter.add.remote() for counter in counters])
    before = nodes_of(group)
    victim = next(node for node in cluster.worker_nodes if node.node_id == before[1])
    victim.kill()
    until(lambda: state(group) == "RESCHEDULING", "the group knows its loss")
    waiting = counters[1].node.remote()
    assert shoal.get(counters[0].add.remote()) == 2
    wrong_rack = cluster.add_node(num_cpus=1, resources={"slot": 1}, labels={"rack": "r2"})
    assert shoal.wait([waiting], timeout=0.1) == ([], [waiting])
    spare = cluster.add_node(num_cpus=1, resources={"slot": 1}, labels={"rack": "r1"})
    assert shoal.get(waiting, timeout=20) == spare.node_id
    assert nodes_of(group) == [before[0], spare.node_id]
    assert wrong_rack.node_id not in nodes_of(group)
    assert shoal.get(counters[0].add.remote()) == 3
    remove_placement_group(group)


def test_zone_and_rack_are_kept_when_a_node_is_lost(make_cluster):
    """zone > rack > node: racks of two zones have the same name, and are different racks."""
    cluster = make_cluster(num_cpus=0)
    for zone in ("z1", "z2"):
        for _ in range(3):
            cluster.add_node(wait=False, num_cpus=1, labels={"zone": zone, "rack": "r1"})
    cluster.wait_for_nodes()
    group = placement_group(
        [{"CPU": 1}] * 2,
        topology_strategy={
            "zone": "STRICT_PACK",
            "rack": "STRICT_PACK",
            "node": "STRICT_SPREAD",
        },
    )
    shoal.get(group.ready(), timeout=20)
    before, assignment = nodes_of(group), placement_group_table(group)["topology_assignment"]
    assert assignment["rack"] == "r1"
    zones = {node["NodeID"]: node["Labels"].get("zone") for node in shoal.nodes()}
    assert {zones[node] for node in before} == {assignment["zone"]}
    next(node for node in cluster.worker_nodes if node.node_id == before[1]).kill()
    until(lambda: nodes_of(group)[1] not in ("", before[1]), "the lost bundle moved")
    shoal.get(group.ready(), timeout=20)
    after = nodes_of(group)
    assert after[0] == before[0]
    assert zones[after[1]] == assignment["zone"]
    remove_placement_group(group)


def test_a_group_that_fits_nowhere_is_made_when_a_node_joins(cluster):
    group = placement_group([{"rare": 1}, {"slot": 1}])
    assert not group.wait(0.1)
    node = cluster.add_node(num_cpus=1, resources={"rare": 1})
    shoal.get(group.ready(), timeout=20)
    assert nodes_of(group)[0] == node.node_id


def test_a_node_that_dies_with_all_of_a_group_lets_it_move_whole(cluster):
    group = placement_group([{"CPU": 0.5}] * 2, strategy="STRICT_PACK")
    shoal.get(group.ready(), timeout=20)
    (before,) = set(nodes_of(group))
    next(node for node in cluster.worker_nodes if node.node_id == before).kill()
    until(lambda: state(group) == "CREATED" and before not in nodes_of(group), "the group moved")
    assert len(set(nodes_of(group))) == 1


def test_removing_a_group_that_is_being_rescheduled(cluster):
    group = placement_group([{"slot": 1}] * 2, strategy="STRICT_SPREAD")
    shoal.get(group.ready(), timeout=20)
    cluster.worker_nodes[0].kill()
    until(lambda: state(group) == "RESCHEDULING", "the group knows its loss")
    remove_placement_group(group)
    until(
        lambda: shoal.available_resources() == shoal.cluster_resources(),
        "what the group still held is free",
    )
    cluster.check_ledger()
