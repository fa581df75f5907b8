"""Placement groups under faults: FIELD_REPORTS O-04, O-05, O-07, O-14."""

from __future__ import annotations

import pytest

import shoal
from shoal.util.placement_group import (
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.cluster.conftest import everything_free
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import process_lives, until

FOREVER = float("inf")


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(num_cpus=0)


def nodes_of(group: object) -> list[str]:
    table = placement_group_table(group)
    placed = table["bundles_to_node_id"]
    return [placed[index] for index in sorted(placed)]


def state_of(group: object) -> str:
    return placement_group_table(group)["state"]


def alive_ids() -> set[str]:
    return {node["NodeID"] for node in shoal.nodes() if node["Alive"]}


def test_a_group_removed_while_a_prepare_never_answers_blocks_nobody(cluster):
    """O-04: the node whose prepare is held dies, the group is removed, the other node is free."""
    a = cluster.add_node(num_cpus=1, labels={"name": "a"})
    b = cluster.add_node(num_cpus=1)
    cluster.faults.delay("prepare", b, FOREVER)
    first = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    cluster.faults.wait_met("prepare", b)
    b.kill()
    remove_placement_group(first)
    c = cluster.add_node(num_cpus=1)
    second = placement_group([{"CPU": 1}], bundle_label_selector=[{"name": "a"}])
    shoal.get(second.ready(), timeout=20)
    assert nodes_of(second) == [a.node_id]
    third = placement_group([{"CPU": 1}] * 1)
    shoal.get(third.ready(), timeout=20)
    assert nodes_of(third) == [c.node_id]
    for group in (second, third):
        remove_placement_group(group)
    until(everything_free, "everything is free again")
    cluster.check_ledger()


@pytest.mark.parametrize("answer", [False, True])
def test_a_prepare_that_is_late_for_its_removed_group_is_undone(cluster, answer):
    """O-04: whether the order or its answer was late; a cancel waits for neither."""
    a = cluster.add_node(num_cpus=1)
    b = cluster.add_node(num_cpus=1)
    cluster.faults.delay("prepare", b, FOREVER, answer=answer)
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    cluster.faults.wait_met("prepare", b)
    remove_placement_group(group)
    following = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    cluster.faults.clear()
    shoal.get(following.ready(), timeout=20)
    assert set(nodes_of(following)) == {a.node_id, b.node_id}
    remove_placement_group(following)
    until(everything_free, "everything is free again")
    cluster.check_ledger()


def test_late_snapshots_do_not_make_full_nodes_look_free(cluster):
    """O-05: two groups that fill a node each, while every snapshot is five seconds late."""
    nodes = [cluster.add_node(num_cpus=8) for _ in range(2)]
    cluster.faults.delay("sync", "*", 5)
    cluster.faults.delay("prepare", "*", 0)
    groups = [placement_group([{"CPU": 4}] * 2, strategy="STRICT_PACK") for _ in range(2)]
    for group in groups:
        shoal.get(group.ready(), timeout=20)
    assert {node for group in groups for node in nodes_of(group)} == {n.node_id for n in nodes}
    prepares = cluster.faults.met("prepare")
    assert prepares <= 3, f"{prepares} prepares for 2 groups: more than one was rejected"
    freed = nodes_of(groups[0])[0]
    remove_placement_group(groups[0])
    # Given back and taken again without a single snapshot in between.
    again = placement_group([{"CPU": 8}], strategy="STRICT_PACK")
    shoal.get(again.ready(), timeout=20)
    assert nodes_of(again) == [freed]
    assert cluster.faults.met("prepare") <= prepares + 2
    cluster.faults.clear()
    for group in (groups[1], again):
        remove_placement_group(group)
    until(everything_free, "everything is free again")
    cluster.check_ledger()


def test_two_nodes_of_a_group_that_die_close_together_are_both_replaced(cluster):
    """O-07: the second dies while the first one's replacement is prepared and not committed."""
    nodes = [cluster.add_node(num_cpus=1) for _ in range(5)]
    by_id = {node.node_id: node for node in nodes}
    group = placement_group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    shoal.get(group.ready(), timeout=20)
    before = nodes_of(group)
    gcs_pid = cluster.gcs_pid
    cluster.faults.delay("commit", "*", 1)
    by_id[before[0]].kill()
    cluster.faults.wait_met("commit")
    by_id[before[1]].kill()
    until(
        lambda: state_of(group) == "CREATED" and set(nodes_of(group)) <= alive_ids(),
        "all bundles are on living nodes",
    )
    after = nodes_of(group)
    assert len(set(after)) == 3
    assert after[2] == before[2]
    assert cluster.gcs_pid == gcs_pid
    assert process_lives(gcs_pid)
    cluster.faults.clear()
    cluster.check_ledger()


def test_a_recovery_outlives_the_gcs(cluster):
    """O-14, first run: what was to be replaced is replaced by the next life of the GCS."""
    a, b = (cluster.add_node(num_cpus=1) for _ in range(2))
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    shoal.get(group.ready(), timeout=20)
    b_index = nodes_of(group).index(b.node_id)
    b.kill()
    until(lambda: state_of(group) == "RESCHEDULING", "the loss is known")
    cluster.kill_gcs()
    cluster.start_gcs()
    c = cluster.add_node(num_cpus=1)
    until(lambda: state_of(group) == "CREATED", "the lost bundle is placed")
    assert nodes_of(group)[b_index] == c.node_id
    assert nodes_of(group)[1 - b_index] == a.node_id


def test_a_restart_between_prepare_and_commit_harms_nobody(cluster):
    """O-14, second run: an actor in the whole bundle never restarts, `ready` is answered."""
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    shoal.get(group.ready(), timeout=20)
    actor = Counter.options(
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0), max_restarts=5
    ).remote()
    pid = shoal.get(actor.pid.remote())
    lost = next(n for n in cluster.worker_nodes if n.node_id == nodes_of(group)[1])
    spare = cluster.add_node(num_cpus=1)
    cluster.faults.delay("commit", spare, 3)
    lost.kill()
    cluster.faults.wait_met("commit", spare)
    ready = group.ready()
    cluster.kill_gcs()
    cluster.start_gcs()
    shoal.get(ready, timeout=30)
    until(lambda: state_of(group) == "CREATED", "the group is whole")
    assert nodes_of(group)[1] == spare.node_id
    assert shoal.get(actor.pid.remote()) == pid
    cluster.faults.clear()
    cluster.check_ledger()


def test_a_first_commit_cut_short_by_a_restart_is_sent_again(cluster):
    """O-14: the ready call that waits from the start is answered by the next life of the GCS."""
    a, b = (cluster.add_node(num_cpus=1) for _ in range(2))
    cluster.faults.drop("commit", b)
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    ready = group.ready()
    cluster.faults.wait_met("commit", b)
    cluster.kill_gcs()
    cluster.faults.clear()
    cluster.start_gcs()
    shoal.get(ready, timeout=30)
    assert set(nodes_of(group)) == {a.node_id, b.node_id}
    cluster.check_ledger()
