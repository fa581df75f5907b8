"""Names of nodes as resources: exact for who asks, and no class of room more for who does not."""

from __future__ import annotations

from gcs_service.core.placement import limits
from gcs_service.core.placement.single import PickRequest
from tests.unit.gcs_service.placement.placement_agent import units
from tests.unit.gcs_service.placement.placement_world import STRICT_PACK, group_id, make_spec

NODES = "abcd"


def add_nodes(world):
    return {name: world.add(name, {"CPU": 4, f"node:{name}": 1}) for name in NODES}


def classes(world):
    """How many kinds of nodes there are by what is free, and by what they have."""
    state = world.core._state
    return len(state.index.everything.members), len(state.totals.everything.members)


def test_nodes_that_only_differ_in_their_names_are_one_class(world):
    add_nodes(world)
    assert classes(world) == (1, 1)
    assert world.core.room_of(next(iter(world.agents))) == {"CPU": 40_000}


def test_a_group_lands_on_the_node_it_names_which_stands_apart_while_the_group_lives(world):
    add_nodes(world)
    world.create(1, [{"node:c": 0.25}, {"node:c": 0.25, "CPU": 1}, {"node:a": 0.5}])
    world.settle()
    assert world.places(1) == ["c", "c", "a"]
    assert classes(world) == (3, 3)
    world.remove(1)
    world.settle()
    assert classes(world) == (1, 1)


def test_a_name_is_used_up_like_any_resource(world):
    agents = add_nodes(world)
    for number in range(5):
        world.create(number, [{"node:b": 0.25}], STRICT_PACK)
        world.settle()
    assert [world.state(number) for number in range(5)] == ["CREATED"] * 4 + ["PENDING"]
    assert world.core.explain(group_id(4)).reason == "insufficient_free"
    assert sum(agent.refusals for agent in agents.values()) == 0
    world.remove(2)
    world.settle()
    assert world.places(4) == ["b"]


def test_what_others_use_of_a_name_is_known_before_anybody_asks(world):
    b = add_nodes(world)["b"]
    b.free["node:b"] -= 8_000
    world.report(b)
    assert classes(world) == (1, 1)
    world.create(1, [{"node:b": 0.5}])
    world.settle()
    assert (world.state(1), b.refusals) == ("PENDING", 0)
    b.free["node:b"] += 8_000
    world.report(b)
    world.settle()
    assert world.places(1) == ["b"]


def test_a_name_that_no_node_has_is_waited_for(world):
    add_nodes(world)
    world.create(1, [{"node:z": 0.5}])
    world.settle()
    assert world.core.explain(group_id(1)).reason == "infeasible"
    world.add("z", {"CPU": 4, "node:z": 1})
    world.settle()
    assert world.places(1) == ["z"]


def test_a_node_that_dies_takes_its_name_with_it(world):
    agents = add_nodes(world)
    world.create(1, [{"node:d": 0.5}])
    world.settle()
    world.kill(agents["d"])
    world.settle()
    assert world.state(1) == "RESCHEDULING"
    world.remove(1)
    world.settle()
    assert world.state(1) == "REMOVED"
    assert classes(world) == (1, 1)


def test_after_a_restart_stored_groups_still_ask(world):
    agents = add_nodes(world)
    world.create(1, [{"node:a": 0.75}])
    world.settle()
    world.restart()
    for agent in agents.values():
        world.connect(agent)
    world.settle()
    world.create(2, [{"node:a": 0.5}])
    world.settle()
    assert (world.state(1), world.state(2)) == ("CREATED", "PENDING")


def test_questions_and_single_leases_find_names_and_are_forgotten_in_time(world):
    add_nodes(world)
    answer = world.core.would_fit(make_spec(1, [{"node:b": 1}]))
    assert answer.fits
    assert not world.core.would_fit(make_spec(1, [{"node:b": 1.5}])).fits
    pick = world.core.pick_node(PickRequest(units({"node:c": 0.1})))
    assert pick.node_id == world.agents[pick.node_id].node_id
    assert world.agents[pick.node_id].name == "c"
    assert classes(world) == (3, 3)
    for number in range(limits.ASKED_NAMES_KEPT_MAX):
        world.core.would_fit(make_spec(1, [{f"node:other{number}": 1}]))
    assert classes(world) == (1, 1)
    rows = {name: (rows, most) for name, rows, most in world.core.bounds()}
    assert rows["asked_name"] == (limits.ASKED_NAMES_KEPT_MAX,) * 2


def test_a_name_in_use_makes_a_node_no_fuller_for_single_leases(world):
    agents = add_nodes(world)
    a = agents["a"]
    a.free["node:a"] = 0
    world.report(a)
    world.core.would_fit(make_spec(1, [{"node:a": 1}]))
    picks = {world.core.pick_node(PickRequest(units({"CPU": 1}))).node_id for _ in range(40)}
    assert a.node_id in picks
