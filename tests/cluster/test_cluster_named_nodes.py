"""Nodes by their names: `node:<host>`, `node:__internal_head__`, and the label of their id."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import shoal
from shoal.cluster_utils import Cluster
from shoal.exceptions import ActorUnschedulableError, TaskUnschedulableError
from shoal.util.placement_group import explain, placement_group, remove_placement_group
from shoal.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)
from tests.cluster.conftest import close_checked
from tests.cluster.waiting import until

HEAD = "node:__internal_head__"
NAME = "node:127.0.0.1"
NOWHERE = "ab" * 28
"""Digits of an id of Ray's, which no node here has."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head and another node of two CPUs each, this process connected to the head."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    try:
        made.add_node(wait=True, num_cpus=2)
        made.connect(namespace="tests")
        yield made
    finally:
        close_checked(made)


@shoal.remote
def where() -> str:
    return shoal.get_runtime_context().get_node_id()


@shoal.remote(num_cpus=0)
class Sitting:
    def where(self) -> str:
        return shoal.get_runtime_context().get_node_id()

    def labels(self) -> dict[str, str]:
        return shoal.get_runtime_context().get_node_labels()


def other_than_head(cluster: Cluster) -> str:
    (other,) = {node["NodeID"] for node in shoal.nodes()} - {cluster.head_node.node_id}
    return other


def test_every_node_has_its_name_and_the_head_its_role(cluster: Cluster) -> None:
    named = {node["NodeID"]: node["Resources"] for node in shoal.nodes()}
    assert {resources[NAME] for resources in named.values()} == {1.0}
    assert [node for node, resources in named.items() if HEAD in resources] == [
        cluster.head_node.node_id
    ]
    total = shoal.cluster_resources()
    assert (total[NAME], total[HEAD]) == (2.0, 1.0)


def test_work_goes_to_the_node_it_names_and_takes_of_its_name(cluster: Cluster) -> None:
    head = cluster.head_node.node_id
    tasks = [where.options(resources={HEAD: 0.01}, num_cpus=0).remote() for _ in range(20)]
    assert set(shoal.get(tasks, timeout=20)) == {head}
    actor = Sitting.options(resources={HEAD: 0.4}).remote()
    detached = Sitting.options(resources={HEAD: 0.4}, lifetime="detached", name="there").remote()
    for one in (actor, detached):
        assert shoal.get(one.where.remote(), timeout=20) == head
    until(lambda: shoal.available_resources().get(HEAD) == 0.2, "0.8 of the name are held")
    shoal.kill(actor)
    shoal.kill(detached)
    until(lambda: shoal.available_resources() == shoal.cluster_resources(), "all is free")


def test_groups_lie_on_the_node_they_name(cluster: Cluster) -> None:
    head = cluster.head_node.node_id
    group = placement_group([{HEAD: 0.5}, {HEAD: 0.5, "CPU": 1}])
    assert group.wait(20)
    later = placement_group([{HEAD: 0.5}])
    until(lambda: explain(later).reason == "insufficient_free", "the name is used up")
    strategy = PlacementGroupSchedulingStrategy(group)
    inside = where.options(scheduling_strategy=strategy, num_cpus=0, resources={HEAD: 0.1})
    assert shoal.get(inside.remote(), timeout=20) == head
    remove_placement_group(group)
    assert later.wait(20)
    remove_placement_group(later)


def test_the_label_of_the_id_has_rays_key_too(cluster: Cluster) -> None:
    other = other_than_head(cluster)
    for node in shoal.nodes():
        assert node["Labels"]["ray.io/node-id"] == node["NodeID"]
        assert node["Labels"]["shoal.io/node-id"] == node["NodeID"]
    for key in ("ray.io/node-id", "shoal.io/node-id"):
        bound = where.options(label_selector={key: other})
        assert shoal.get(bound.remote(), timeout=20) == other
        kept_away = where.options(label_selector={key: f"!{other}"})
        assert shoal.get(kept_away.remote(), timeout=20) == cluster.head_node.node_id
    actor = Sitting.options(label_selector={"ray.io/node-id": other}).remote()
    assert shoal.get(actor.labels.remote(), timeout=20)["ray.io/node-id"] == other
    group = placement_group([{"CPU": 1}], bundle_label_selector=[{"ray.io/node-id": other}])
    inside = where.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
    assert shoal.get(inside.remote(), timeout=20) == other
    remove_placement_group(group)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "bound",
    [
        {"scheduling_strategy": NodeAffinitySchedulingStrategy(NOWHERE, soft=False)},
        {"scheduling_strategy": NodeAffinitySchedulingStrategy("cd" * 16, soft=False)},
        {"label_selector": {"ray.io/node-id": NOWHERE}},
    ],
    ids=["of-ray", "of-shoal", "label"],
)
def test_work_bound_to_a_node_that_never_was_is_refused(bound: dict[str, object]) -> None:
    with pytest.raises(TaskUnschedulableError, match="is not in the cluster"):
        shoal.get(where.options(**bound).remote(), timeout=20)
    for lifetime in (None, "detached"):
        name = "nowhere" if lifetime else None
        actor = Sitting.options(**bound, lifetime=lifetime, name=name).remote()
        with pytest.raises(ActorUnschedulableError, match=r"is not (in the cluster|alive)"):
            shoal.get(actor.where.remote(), timeout=20)


def test_work_softly_bound_to_a_node_that_never_was_runs_elsewhere(cluster: Cluster) -> None:
    strategy = NodeAffinitySchedulingStrategy(NOWHERE, soft=True)
    ran = shoal.get(where.options(scheduling_strategy=strategy).remote(), timeout=20)
    assert ran in (cluster.head_node.node_id, other_than_head(cluster))
