"""Demand and the reference autoscaler with real processes (FIELD_REPORTS O-23)."""

from __future__ import annotations

import json

import pytest

import shoal
from shoal.cluster_utils import Cluster
from shoal.util import placement_group
from shoal.util.autoscaler import cluster_resource_state, request_resources
from shoal.util.placement_group import remove_placement_group
from tests.cluster.demand_reading import (
    DEADLINE_S,
    Reader,
    autoscaler,
    of_type,
    run_status,
    split,
    until_split,
)
from tests.cluster.waiting import lives_on, until

TRAINERS = 32


@shoal.remote
class Trainer:
    def ping(self) -> int:
        return 1


def make_trainers(count: int) -> list[object]:
    return [Trainer.options(resources={"trainer": 1}).remote() for _ in range(count)]


@pytest.fixture
def head(make_cluster) -> Cluster:
    return make_cluster(num_cpus=2)


def trainer_type(most: int) -> dict[str, object]:
    return {"trainer": {"resources": {"CPU": 1, "trainer": 1}, "max_nodes": most}}


def test_pending_and_running_add_up_in_every_snapshot_while_nodes_come_two_by_two(head):
    actors = make_trainers(TRAINERS)
    until_split("trainer", TRAINERS, 0)
    with Reader(TRAINERS, "trainer", "trainer") as reader:
        for step in range(1, TRAINERS // 2 + 1):
            for _ in range(2):
                head.add_node(num_cpus=1, resources={"trainer": 1}, wait=False)
            until_split("trainer", TRAINERS - 2 * step, 2 * step)
        assert shoal.get([actor.ping.remote() for actor in actors], timeout=DEADLINE_S)
    assert reader.wrong == []
    assert reader.read > TRAINERS


@pytest.mark.parametrize("kind", ["demand", "sync"])
def test_the_sums_hold_whoever_is_late_with_its_reports(head, kind):
    """O-23: of the one that sent a request and the one that took it, either may be faster."""
    actors = make_trainers(4)
    until_split("trainer", 4, 0)
    head.faults.delay(kind, "*", 0.3)
    with Reader(4, "trainer", "trainer") as reader:
        for running in (1, 2):
            head.add_node(num_cpus=1, resources={"trainer": 1}, wait=False)
            until_split("trainer", 4 - running, running)
            head.faults.wait_met(kind, "*", running)
    assert (reader.wrong, len(actors)) == ([], 4)


def test_32_actors_lead_to_exactly_32_nodes_and_idle_nodes_go(head, tmp_path):
    with autoscaler(head, tmp_path, idle_timeout_s=1, node_types=trainer_type(TRAINERS + 8)):
        actors = make_trainers(TRAINERS)
        counted = lambda: sum(split(cluster_resource_state(), "trainer")) == TRAINERS
        until(counted, "all are counted")
        with Reader(TRAINERS, "trainer", "trainer") as reader:
            assert shoal.get([actor.ping.remote() for actor in actors], timeout=DEADLINE_S)
            nodes = lambda: of_type(cluster_resource_state(), "trainer")
            lives_on(lambda: nodes() == TRAINERS, "as many nodes as actors", 0.6)
        assert (reader.wrong, reader.most_nodes) == ([], TRAINERS)
        del actors
        until(lambda: nodes() == 0, "idle nodes go", DEADLINE_S)


def test_a_gang_is_bought_whole_or_not_at_all(head, tmp_path):
    nodes = lambda: of_type(cluster_resource_state(), "trainer")
    with autoscaler(head, tmp_path, idle_timeout_s=300, node_types=trainer_type(4)):
        too_large = placement_group([{"trainer": 1}] * 5, strategy="STRICT_SPREAD")
        until(lambda: len(cluster_resource_state().gangs) == 1, "the gang is demand")
        lives_on(lambda: nodes() == 0, "nothing is bought for a part of a gang", 1.0)
        told = lambda: json.loads(run_status(head))["autoscaler"]["infeasible_gangs"]
        until(lambda: told() == [too_large.id.hex()], "the autoscaler says which gang", DEADLINE_S)
        fits = placement_group([{"trainer": 1}] * 4, strategy="STRICT_SPREAD")
        shoal.get(fits.ready(), timeout=DEADLINE_S)
        assert nodes() == 4
        assert [gang.placement_group_id for gang in cluster_resource_state().gangs] == [
            too_large.id.hex()
        ]
        for group in (too_large, fits):
            remove_placement_group(group)


def test_a_requested_floor_is_held_without_demand_and_ends_with_its_request(head, tmp_path):
    nodes = lambda: of_type(cluster_resource_state(), "trainer")
    with autoscaler(head, tmp_path, idle_timeout_s=0.5, node_types=trainer_type(5)):
        request_resources(bundles=[{"trainer": 1}] * 3)
        until(lambda: nodes() == 3, "the floor is bought", DEADLINE_S)
        state = cluster_resource_state()
        assert (state.pending, state.infeasible) == ([], [])
        assert sum(row.count for row in state.constraints) == 3
        lives_on(lambda: nodes() == 3, "the floor stays", 1.5)
        request_resources()
        until(lambda: nodes() == 0, "without a floor idle nodes go", DEADLINE_S)


def test_infeasible_demand_shows_in_status_at_once(head):
    waiting = Trainer.options(resources={"moon": 2}).remote()
    rows = until(
        lambda: [row for row in json.loads(run_status(head))["demand"] if row["infeasible"]],
        "status names it",
    )
    assert rows[0]["resources"]["moon"] == 2
    assert waiting is not None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"bundles": [{}]}, ValueError),
        ({"bundles": [{"CPU": -1}]}, ValueError),
        ({"bundles": [{"CPU": 1}], "bundle_label_selectors": []}, None),
        ({"bundles": [{"CPU": 1}], "bundle_label_selectors": [{}, {}]}, ValueError),
        ({"num_cpus": -1}, ValueError),
    ],
)
def test_senseless_floors_are_refused_at_the_call(one_node, arguments, error):
    if error is None:
        request_resources(**arguments)
        request_resources()
        return
    with pytest.raises(error):
        request_resources(**arguments)
