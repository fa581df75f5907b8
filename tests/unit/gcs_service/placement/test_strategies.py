from __future__ import annotations

import pytest

from tests.unit.gcs_service.placement.placement_agent import node_id
from tests.unit.gcs_service.placement.placement_world import (
    PACK,
    SPREAD,
    STRICT_PACK,
    STRICT_SPREAD,
    make_spec,
)

ONE = {"CPU": 1}


def test_pack_uses_one_node_when_one_holds_all(world):
    world.add("small", {"CPU": 2})
    world.add("big", {"CPU": 8})
    world.create(1, [ONE] * 4)
    world.settle()
    assert world.places(1) == ["big"] * 4


def test_pack_takes_the_tightest_node_that_holds_all(world):
    world.add("big", {"CPU": 8})
    world.add("tight", {"CPU": 4})
    world.create(1, [ONE] * 4)
    world.settle()
    assert world.places(1) == ["tight"] * 4


def test_pack_falls_back_to_several_nodes(world):
    for name in "abc":
        world.add(name, {"CPU": 2})
    world.create(1, [ONE] * 5)
    world.settle()
    assert sorted(world.places(1)) == ["a", "a", "b", "b", "c"]


def test_pack_of_mixed_bundles_finds_the_node_for_all_of_them(world):
    world.add("gpu", {"CPU": 1, "GPU": 4})
    world.add("both", {"CPU": 8, "GPU": 2})
    world.create(1, [{"GPU": 1, "CPU": 1}, {"CPU": 6}])
    world.settle()
    assert world.places(1) == ["both", "both"]


def test_spread_uses_every_node_before_it_reuses_one(world):
    for name in "abc":
        world.add(name)
    world.create(1, [ONE] * 7, SPREAD)
    world.settle()
    places = world.places(1)
    assert sorted(places.count(name) for name in "abc") == [2, 2, 3]


def test_strict_pack_needs_one_node_for_the_sum(world):
    world.add("a", {"CPU": 3})
    world.add("b", {"CPU": 3})
    world.create(1, [{"CPU": 2}, {"CPU": 2}], STRICT_PACK)
    assert (world.state(1), world.record(1).reason) == ("PENDING", "infeasible")
    world.add("c", {"CPU": 4})
    world.settle()
    assert world.places(1) == ["c", "c"]


def test_strict_pack_tries_the_soft_target_first(world):
    world.add("a")
    world.add("b")
    world.create(1, [ONE], STRICT_PACK, soft_target_node_id=node_id("b"))
    world.create(2, [{"CPU": 4}], STRICT_PACK, soft_target_node_id=node_id("b"))
    world.settle()
    assert (world.places(1), world.places(2)) == (["b"], ["a"])


def test_strict_spread_needs_a_node_for_each_bundle(world):
    world.add("a", {"CPU": 8})
    world.create(1, [ONE] * 2, STRICT_SPREAD)
    assert (world.state(1), world.record(1).reason) == ("PENDING", "infeasible")
    world.add("b")
    world.settle()
    assert sorted(world.places(1)) == ["a", "b"]


def test_strict_spread_of_shapes_that_fight_for_a_node_finds_the_assignment(world):
    # The hardest bundle fits both nodes, the other one only the first.
    world.add("both", {"CPU": 2, "disk": 1})
    world.add("other", {"CPU": 3})
    world.create(1, [{"CPU": 2}, {"CPU": 1, "disk": 1}, ONE], STRICT_SPREAD)
    world.add("third", {"CPU": 1})
    world.settle()
    assert world.places(1) == ["other", "both", "third"]


def test_strict_spread_moves_earlier_choices_along_a_path(world):
    world.add("ab", {"a": 1, "b": 1})
    world.add("bc", {"b": 1, "c": 1})
    world.add("cd", {"c": 1, "d": 1})
    world.create(1, [{"b": 1}, {"c": 1}, {"a": 1}], STRICT_SPREAD)
    world.settle()
    assert world.places(1) == ["bc", "cd", "ab"]


def test_selectors_are_respected_per_bundle(world):
    world.add("a", zone="x")
    world.add("b", zone="y")
    world.add("c")
    selectors = [{"zone": "y"}, {"zone": "!y"}, {"zone": "in(x,z)"}]
    world.create(1, [ONE] * 3, SPREAD, selectors=selectors)
    world.settle()
    places = world.places(1)
    assert places[0] == "b"
    assert places[1] in {"a", "c"}
    assert places[2] == "a"


def test_bundles_without_devices_leave_device_nodes_alone_while_others_fit(world):
    world.add("gpu", {"CPU": 4, "GPU": 4})
    world.add("plain", {"CPU": 4})
    for number in range(1, 6):
        world.create(number, [ONE])
    world.settle()
    assert [world.places(number)[0] for number in range(1, 6)] == ["plain"] * 4 + ["gpu"]


@pytest.mark.parametrize("strategy", [PACK, SPREAD, STRICT_PACK, STRICT_SPREAD])
def test_a_full_cluster_is_used_to_the_last_unit(world, strategy):
    for name in "abcd":
        world.add(name, {"CPU": 2})
    for number in range(1, 9):
        world.create(number, [ONE], strategy)
    world.settle()
    assert {world.state(number) for number in range(1, 9)} == {"CREATED"}
    world.check_at_rest()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (make_spec(1, []), "at least one bundle"),
        (make_spec(1, [{}]), "bundle 0 asks for nothing"),
        (make_spec(1, [ONE], selectors=[{"a": "in("}]), "bundle 0: label selector 'a'"),
        (make_spec(1, [ONE], strategy=17), "strategy 17 is not one of PACK"),
        (
            make_spec(1, [ONE] * 2, STRICT_PACK, selectors=[{"z": "x"}, {"z": "y"}]),
            "'z' exclude each other",
        ),
        (make_spec(1, [ONE], topology=[("", STRICT_PACK)]), "is not a label above the node"),
        (
            make_spec(1, [ONE], topology=[("r", STRICT_PACK), ("r", SPREAD)]),
            "'r' is named twice",
        ),
        (
            make_spec(1, [ONE] * 2, STRICT_PACK, topology=[("r", STRICT_SPREAD)]),
            "packs all bundles together",
        ),
        (make_spec(1, [ONE], name="n" * 600), "longer than 512 bytes"),
    ],
)
def test_contradictions_are_refused_by_name(world, spec, words):
    world.carry_out(world.core.create(spec, world.now_ms, world.wall_ms))
    (refused,) = world.replies
    assert refused.reason == "bad_request"
    assert words in refused.message
    assert world.record(1) is None
