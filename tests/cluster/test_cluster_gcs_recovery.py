"""The GCS dies in the middle of what a group is going through (FIELD_REPORTS O-14)."""

from __future__ import annotations

import shoal
from shoal.util.placement_group import placement_group, placement_group_table
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import until

READY_S = 30
HELD_S = 3.0


def test_a_group_that_lost_a_bundle_is_placed_again_although_the_gcs_died_meanwhile(make_cluster):
    cluster = make_cluster(num_cpus=0)
    cluster.add_node(num_cpus=1)
    lost = cluster.add_node(num_cpus=1)
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    shoal.get(group.ready(), timeout=READY_S)
    lost.kill()
    until(lambda: placement_group_table(group)["state"] == "RESCHEDULING", "the loss is noticed")
    cluster.kill_gcs()
    cluster.start_gcs()
    assert placement_group_table(group)["state"] == "RESCHEDULING"
    fresh = cluster.add_node(num_cpus=1)
    until(lambda: placement_group_table(group)["state"] == "CREATED", "it is whole again")
    assert fresh.node_id in placement_group_table(group)["bundles_to_node_id"].values()
    cluster.check_ledger()


def test_a_commit_that_was_under_way_is_finished_and_who_waits_is_answered(make_cluster):
    cluster = make_cluster(num_cpus=0)
    cluster.add_node(num_cpus=1)
    slow = cluster.add_node(num_cpus=1)
    cluster.faults.delay("commit", slow, HELD_S)
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    ready = group.ready()
    actors = [
        Counter.options(
            num_cpus=1,
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=index
            ),
        ).remote()
        for index in range(2)
    ]
    first = [actor.add.remote() for actor in actors]
    until(
        lambda: placement_group_table(group).get("state") == "PREPARED", "the commits are under way"
    )
    cluster.kill_gcs()
    cluster.start_gcs()
    shoal.get(ready, timeout=READY_S)
    assert shoal.get(first, timeout=READY_S) == [1, 1]
    assert shoal.get([actor.add.remote() for actor in actors]) == [2, 2]
    cluster.check_ledger()
