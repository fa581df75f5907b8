"""Strategies and placement options are refused where they are written."""

from __future__ import annotations

import pytest

from driver_client import strategies
from driver_client.placement_group import PlacementGroup
from driver_client.strategies import (
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)
from shoal.util.scheduling_strategies import In, NotIn

GROUP = PlacementGroup(b"g" * 24, [{"CPU": 1}])


@pytest.mark.parametrize("node", ["", "zz", "abc", 7, None])
def test_a_node_id_must_be_hexadecimal(node):
    with pytest.raises((TypeError, ValueError), match="hexadecimal"):
        NodeAffinitySchedulingStrategy(node, soft=False)


def test_a_node_id_of_another_length_is_a_node_that_is_not_here():
    other = NodeAffinitySchedulingStrategy("ab" * 28, soft=False)
    assert len(strategies.node_bytes(other.node_id)) == 16
    assert strategies.node_bytes("ab" * 16) == b"\xab" * 16


def test_affinity_needs_to_know_whether_it_is_soft():
    with pytest.raises(TypeError, match="soft"):
        NodeAffinitySchedulingStrategy("ab" * 16)
    with pytest.raises(ValueError, match="soft=True"):
        NodeAffinitySchedulingStrategy("ab" * 16, soft=False, _spill_on_unavailable=True)
    with pytest.raises(ValueError, match="soft=False"):
        NodeAffinitySchedulingStrategy("ab" * 16, soft=True, _fail_on_unavailable=True)


@pytest.mark.parametrize(
    ("hard", "soft"),
    [({}, None), ({}, {}), ({"a": 5}, None), ({5: In("b")}, None), ([1], None), ({"a": "in("}, {})],
)
def test_labels_must_be_a_selector(hard, soft):
    with pytest.raises(ValueError, match=r"NodeLabelSchedulingStrategy"):
        NodeLabelSchedulingStrategy(hard, soft=soft)


@pytest.mark.parametrize("operator", [In, NotIn])
def test_operators_take_texts(operator):
    with pytest.raises(ValueError, match="at least one"):
        operator()
    with pytest.raises(ValueError, match="7"):
        operator(7)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"scheduling_strategy": 5}, TypeError, "SPREAD"),
        ({"scheduling_strategy": "X"}, ValueError, "SPREAD"),
        ({"scheduling_strategy": ""}, ValueError, "SPREAD"),
        ({"placement_group": 5}, TypeError, "PlacementGroup"),
        ({"placement_group": GROUP, "scheduling_strategy": "SPREAD"}, ValueError, "exclude"),
    ],
)
def test_wrong_placement_options_are_refused(options, error, match):
    with pytest.raises(error, match=match):
        strategies.check_placement(options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scheduling_strategy": None},
        {"scheduling_strategy": "DEFAULT", "placement_group": None},
        {"placement_group": "default"},
        {"placement_group": GROUP},
        {"scheduling_strategy": PlacementGroupSchedulingStrategy(GROUP)},
    ],
)
def test_right_placement_options_pass(options):
    strategies.check_placement(options)


def test_the_group_of_a_strategy_must_be_one():
    with pytest.raises((TypeError, ValueError), match="PlacementGroup"):
        PlacementGroupSchedulingStrategy(5)
