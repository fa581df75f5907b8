"""Amounts: exact fractions, nothing lost, and what a request too fine or too large says."""

from __future__ import annotations

import random

import pytest

import shoal
from shoal.util.placement_group import placement_group, remove_placement_group
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import until

pytestmark = pytest.mark.usefixtures("one_node", "settled")


def free(name: str = "CPU") -> float:
    return shoal.available_resources().get(name, 0.0)


def holders(amounts: list[float]) -> list[object]:
    actors = [Counter.options(num_cpus=amount).remote() for amount in amounts]
    shoal.get([actor.pid.remote() for actor in actors])
    return actors


def test_an_amount_finer_than_the_unit_is_refused_and_says_the_smallest_step():
    with pytest.raises(ValueError, match=r"0\.0001"):
        Counter.options(num_cpus=0.0000001).remote()
    with pytest.raises(ValueError, match=r"0\.0001"):
        placement_group([{"CPU": 0.00001}])


def test_three_tenths_leave_no_dust():
    actors = holders([0.1, 0.1, 0.1])
    until(lambda: free() == 3.7, "exactly 0.3 are held")
    for actor in actors:
        shoal.kill(actor)
    until(lambda: free() == 4.0, "exactly all is free")


def test_ten_tenths_are_one_in_any_order_of_release():
    actors = holders([0.1] * 10 + [1.0] * 3)
    until(lambda: "CPU" not in shoal.available_resources(), "nothing is left")
    random.Random(7).shuffle(actors)
    for actor in actors:
        shoal.kill(actor)
    until(lambda: free() == 4.0, "exactly all is free")


def test_groups_and_actors_share_one_ledger(one_node):
    groups = [placement_group([{"CPU": 0.3}]) for _ in range(10)]
    shoal.get([group.ready() for group in groups])
    actor = Counter.options(num_cpus=1).remote()
    shoal.get(actor.pid.remote())
    until(lambda: "CPU" not in shoal.available_resources(), "nothing is left")
    one_node.check_ledger()
    for group in groups:
        remove_placement_group(group)
    shoal.kill(actor)


def test_the_totals_are_what_was_stated(one_node):
    assert shoal.cluster_resources()["CPU"] == 4.0
    (node,) = shoal.nodes()
    assert node["NodeID"] == one_node.head_node.node_id
    assert node["Resources"]["CPU"] == 4.0
