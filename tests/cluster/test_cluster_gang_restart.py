"""What becomes of a gang that loses a node: `on_loss` restart and wait, and what its owner is told.

`replace`, the default, is in `test_cluster_placement_group_loss.py`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import shoal
from shoal.cluster_utils import Cluster, Fleet
from shoal.gcs_calls import GcsCalls
from shoal.util.placement_group import (
    GroupChange,
    PlacementGroup,
    explain,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.cluster.conftest import everything_free
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import lives_on, until

RACK_NODES = 3
ACTORS_PER_BUNDLE = 2
READY_S = 20


def nodes_of(group: PlacementGroup) -> list[str]:
    nodes = placement_group_table(group)["bundles_to_node_id"]
    return [nodes[index] for index in sorted(nodes)]


def state(group: PlacementGroup) -> str:
    return placement_group_table(group)["state"]


def placed_without(group: PlacementGroup, node_id: str) -> bool:
    """One look: it is placed, and not on this node."""
    row = placement_group_table(group)
    return row["state"] == "CREATED" and node_id not in row["bundles_to_node_id"].values()


def gang_actors(group: PlacementGroup, actor_class: Any, count: int) -> list[Any]:
    """`count` actors in each bundle, started and called once."""
    actors = [
        actor_class.options(
            max_restarts=1,
            max_task_retries=-1,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, index),
        ).remote()
        for index in range(group.bundle_count)
        for _ in range(count)
    ]
    assert set(shoal.get([actor.add.remote() for actor in actors], timeout=READY_S)) == {1}
    return actors


def kill_node_of(cluster: Cluster, node_id: str) -> None:
    next(node for node in cluster.worker_nodes if node.node_id == node_id).kill()


def restarts(cluster: Cluster) -> list[int]:
    with GcsCalls(cluster.address) as gcs:
        return [actor.restarts for actor in gcs.actors().actors]


def test_a_gang_that_restarts_moves_to_another_rack_as_a_whole(make_cluster):
    """Its owner awaits the change, is told of each, and all actors answer from their new nodes."""
    cluster = make_cluster(num_cpus=0)
    for rack in ("r1", "r2"):
        for _ in range(RACK_NODES):
            cluster.add_node(wait=False, num_cpus=2, labels={"rack": rack})
    cluster.wait_for_nodes()
    group = placement_group(
        [{"CPU": 2}] * RACK_NODES,
        strategy="STRICT_SPREAD",
        topology_strategy={"rack": "STRICT_PACK"},
        on_loss="restart",
    )
    shoal.get(group.ready(), timeout=READY_S)
    before = nodes_of(group)
    told: list[GroupChange] = []
    stop = group.on_change(told.append)
    actors = gang_actors(group, Counter.options(num_cpus=1), ACTORS_PER_BUNDLE)

    async def killed() -> GroupChange:
        change = asyncio.ensure_future(group.changed())
        await asyncio.sleep(0)  # The question is on its way before the node goes.
        await asyncio.to_thread(kill_node_of, cluster, before[1])
        return await asyncio.wait_for(change, READY_S)

    async def placed_again() -> GroupChange:
        while (change := await asyncio.wait_for(group.changed(), READY_S)).state != "CREATED":
            pass
        return change

    first = asyncio.run(killed())
    assert (first.state, first.lost_bundles) == ("RESCHEDULING", (0, 1, 2))
    assert "on_loss=restart" in first.cause
    # What happened since the last `changed()` is told at once: nothing is missed in between.
    assert asyncio.run(placed_again()).placed_bundles == (0, 1, 2)
    assert [change.lost_bundles for change in told if change.lost_bundles] == [(0, 1, 2)]
    values = shoal.get([actor.add.remote() for actor in actors], timeout=READY_S)
    assert values == [1] * len(actors), "every actor of the gang started anew"
    after = nodes_of(group)
    assert not set(after) & set(before)
    assert shoal.get([actor.node.remote() for actor in actors]) == [
        node for node in after for _ in range(ACTORS_PER_BUNDLE)
    ]
    until(lambda: restarts(cluster) == [1] * len(actors), "one restart of each")
    stop()
    remove_placement_group(group)
    until(everything_free, "everything is free again")
    cluster.check_ledger()


def test_a_gang_comes_back_to_nodes_that_still_give_its_old_bundles_back(make_cluster):
    """The order to give a bundle back is late; there is other room: no prepare is refused."""
    cluster = make_cluster(num_cpus=0)
    for part in ("a", "b"):
        cluster.add_node(num_cpus=4, labels={"part": part})
    group = placement_group(
        [{"CPU": 1}] * 2,
        bundle_label_selector=[{"part": "a"}, {"part": "b"}],
        on_loss="restart",
    )
    shoal.get(group.ready(), timeout=READY_S)
    actors = gang_actors(group, Counter, 1)
    victim, stays = nodes_of(group)
    spare = cluster.add_node(num_cpus=4, labels={"part": "a"})
    cluster.faults.delay("return_bundles", stays, float("inf"))
    kill_node_of(cluster, victim)
    until(lambda: placed_without(group, victim), "the group is placed again")
    assert nodes_of(group) == [spare.node_id, stays]
    assert shoal.get([actor.add.remote() for actor in actors], timeout=READY_S) == [1, 1]
    attempts = placement_group_table(group)["stats"]["scheduling_attempt"]
    assert attempts == 2, "one to start with, one after the loss, none refused"
    cluster.faults.clear()
    assert shoal.get([actor.add.remote() for actor in actors], timeout=READY_S) == [2, 2]
    remove_placement_group(group)
    until(everything_free, "everything is free again")
    cluster.check_ledger()


def test_a_gang_that_waits_takes_only_a_node_that_joins_after_the_loss(make_cluster):
    cluster = make_cluster(num_cpus=0)
    for _ in range(3):
        cluster.add_node(wait=False, num_cpus=1)
    cluster.wait_for_nodes()
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD", on_loss="wait")
    shoal.get(group.ready(), timeout=READY_S)
    actors = gang_actors(group, Counter, 1)
    before = nodes_of(group)
    kill_node_of(cluster, before[1])
    until(lambda: state(group) == "RESCHEDULING", "the group knows its loss")
    explanation = explain(group)
    assert explanation.reason == "rescheduling"
    assert "waits for a node that joins" in explanation.message
    assert explanation.bundles[1].rejected["waiting_for_new_node"] >= 1
    lives_on(lambda: state(group) == "RESCHEDULING", "it took the spare node", 0.3)
    assert shoal.get(actors[0].add.remote(), timeout=READY_S) == 2
    repaired = cluster.add_node(num_cpus=1)
    assert shoal.get(actors[1].add.remote(), timeout=READY_S) == 1
    assert nodes_of(group) == [before[0], repaired.node_id]
    assert shoal.get(actors[0].add.remote(), timeout=READY_S) == 3
    remove_placement_group(group)
    until(everything_free, "everything is free again")
    cluster.check_ledger()


@shoal.remote(num_cpus=1)
class Member:
    def add(self) -> None:
        """A faked worker answers None."""


def test_a_rack_of_eighteen_with_four_actors_a_node_answers_again(make_cluster):
    """Faked workers, real agents: what `./run bench gang_restart` measures."""
    cluster = make_cluster(num_cpus=0)
    with Fleet(cluster.address, 36, rack_size=18, connections=4, leases=True) as fleet:
        group = placement_group(
            [{"CPU": 4}] * 18,
            strategy="STRICT_SPREAD",
            topology_strategy={"rack": "STRICT_PACK"},
            on_loss="restart",
        )
        shoal.get(group.ready(), timeout=READY_S)
        actors = [
            Member.options(
                max_restarts=-1,
                max_task_retries=-1,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, index),
            ).remote()
            for index in range(18)
            for _ in range(4)
        ]
        shoal.get([actor.add.remote() for actor in actors], timeout=READY_S)
        before = nodes_of(group)
        fleet.kill_node(before[7])
        until(lambda: placed_without(group, before[7]), "the group is placed again")
        assert not set(nodes_of(group)) & set(before)
        shoal.get([actor.add.remote() for actor in actors], timeout=READY_S)
        assert fleet.status().workers == len(actors)
        assert fleet.status().prepares_rejected == 0
        remove_placement_group(group)
        until(lambda: fleet.status().bundles == 0, "all given back")
