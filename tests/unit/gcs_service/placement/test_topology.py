from __future__ import annotations

import pytest

from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.placement.limits import GIVE_BACK_WAIT_MS
from tests.unit.gcs_service.placement.placement_world import (
    PACK,
    SPREAD,
    STRICT_PACK,
    STRICT_SPREAD,
    group_id,
)

GPUS = {"GPU": 4}
RACK = [("rack", STRICT_PACK)]


def racks(world, count, size, total=None, **labels):
    for rack in range(count):
        for number in range(size):
            world.add(f"r{rack}n{number}", total or GPUS, rack=f"r{rack}", **labels)


def racks_of(world, number):
    return {place[:2] for place in world.places(number)}


def test_each_group_sits_in_exactly_one_rack_and_the_last_one_says_what_is_missing(world):
    """FIELD_REPORTS O-09: 3 racks of 6, one node busy, three groups of 6."""
    racks(world, 3, 6)
    world.create(9, [GPUS], selectors=[{"rack": "r1"}])
    for number in (1, 2, 3):
        world.create(number, [GPUS] * 6, STRICT_SPREAD, topology=RACK)
    world.settle()
    assert racks_of(world, 1) | racks_of(world, 2) == {"r0", "r2"}
    assert len(racks_of(world, 1)) == len(racks_of(world, 2)) == 1
    waiting = world.record(3)
    assert waiting.reason == "domain_incomplete"
    assert "best rack is r1: room for 5 of 6 bundles" in waiting.message
    answer = world.core.explain(group_id(3))
    best = answer.best_domain
    assert (best.label, best.value, best.fitting, best.wanted) == ("rack", "r1", 5, 6)
    assert best.lacks == "room for 1 more x {GPU: 4}"
    assert group_id(9) in answer.blocked_by


def test_the_assignment_is_kept_on_partial_loss_and_dropped_when_all_is_lost(world):
    racks(world, 2, 3)
    world.create(1, [GPUS] * 2, STRICT_SPREAD, topology=RACK)
    world.settle()
    rack = world.record(1).topology_assignment["rack"]
    names = world.places(1)
    agents = {agent.name: agent for agent in world.agents.values()}
    world.kill(agents[names[0]])
    world.settle()
    assert world.state(1) == "CREATED"
    assert world.record(1).topology_assignment["rack"] == rack
    # One more loss leaves the group partial, though the other rack is free.
    world.kill(agents[world.places(1)[0]])
    world.settle()
    record = world.record(1)
    assert (world.state(1), record.topology_assignment["rack"]) == ("RESCHEDULING", rack)
    assert record.reason == "infeasible"
    # The rest of the rack dies: nothing binds the group any more.
    (last,) = [name for name in world.places(1) if name]
    world.kill(agents[last])
    world.settle()
    assert world.state(1) == "CREATED"
    assert world.record(1).topology_assignment["rack"] != rack
    world.check_at_rest()


def test_restart_moves_the_whole_gang_to_another_rack(world):
    racks(world, 2, 2)
    world.create(1, [GPUS] * 2, STRICT_SPREAD, topology=RACK, on_loss=pg.ON_LOSS_RESTART)
    world.settle()
    first = world.places(1)
    agents = {agent.name: agent for agent in world.agents.values()}
    for agent in agents.values():
        agent.busy = True
    world.kill(agents[first[0]])
    assert "on_loss=restart" in world.seen[group_id(1)][-1].message
    world.settle()
    assert world.state(1) == "CREATED"
    assert not set(world.places(1)) & set(first)
    assert agents[first[1]].free == agents[first[1]].total
    assert sum(agent.refusals for agent in agents.values()) == 0
    world.check_at_rest()


def test_wait_only_takes_a_node_that_joins_after_the_loss(world):
    racks(world, 1, 3)
    world.create(1, [GPUS] * 2, STRICT_SPREAD, topology=RACK, on_loss=pg.ON_LOSS_WAIT)
    world.settle()
    agents = {agent.name: agent for agent in world.agents.values()}
    world.kill(agents[world.places(1)[0]])
    world.calm(5_000)
    assert world.state(1) == "RESCHEDULING"
    assert world.core.explain(group_id(1)).bundles[0].rejected["waiting_for_new_node"] == 2
    world.add("repaired", GPUS, rack="r0")
    world.settle()
    assert world.state(1) == "CREATED"
    assert "repaired" in world.places(1)


def test_the_tightest_rack_that_fits_is_taken(world):
    racks(world, 1, 4)
    for number in range(2):
        world.add(f"r1n{number}", GPUS, rack="r1")
    world.create(1, [GPUS] * 2, STRICT_SPREAD, topology=RACK)
    world.settle()
    assert racks_of(world, 1) == {"r1"}


@pytest.mark.parametrize("strategy", [PACK, SPREAD])
def test_mixed_bundles_in_one_rack(world, strategy):
    racks(world, 2, 2, {"CPU": 4})
    world.add("r1n9", {"CPU": 1, "GPU": 1}, rack="r1")
    world.create(1, [{"CPU": 2}, {"CPU": 2}, {"GPU": 1}], strategy, topology=RACK)
    world.settle()
    assert racks_of(world, 1) == {"r1"}


def test_nested_strict_levels_do_not_mix_racks_of_equal_name(world):
    for zone in "ab":
        for number in range(2):
            world.add(f"{zone}{number}", GPUS, zone=zone, rack="r0")
    topology = [("zone", STRICT_PACK), ("rack", STRICT_PACK)]
    world.create(1, [GPUS] * 3, STRICT_SPREAD, topology=topology)
    assert world.record(1).reason == "infeasible"
    world.create(2, [GPUS] * 2, STRICT_SPREAD, topology=topology)
    world.settle()
    assert dict(world.record(2).topology_assignment) in (
        {"zone": "a", "rack": "r0"},
        {"zone": "b", "rack": "r0"},
    )


def test_strict_spread_over_racks_counts_racks_of_bundles_that_stayed(world):
    racks(world, 3, 2)
    world.create(1, [GPUS] * 2, STRICT_SPREAD, topology=[("rack", STRICT_SPREAD)])
    world.settle()
    assert len(racks_of(world, 1)) == 2
    agents = {agent.name: agent for agent in world.agents.values()}
    lost, stayed = world.places(1)
    world.kill(agents[lost])
    world.settle()
    assert world.state(1) == "CREATED"
    assert world.places(1)[1] == stayed
    assert len(racks_of(world, 1)) == 2


def test_spread_over_racks_inside_one_zone(world):
    for zone in "ab":
        for rack in range(2):
            for number in range(2):
                world.add(f"{zone}{rack}{number}", GPUS, zone=zone, rack=f"{zone}{rack}")
    topology = [("zone", STRICT_PACK), ("rack", SPREAD)]
    world.create(1, [GPUS] * 4, STRICT_SPREAD, topology=topology)
    world.settle()
    places = world.places(1)
    assert len({place[0] for place in places}) == 1
    assert sorted(place[:2] for place in places).count(places[0][:2]) == 2


def zones(world, count, racks, size, total=None):
    """Nodes named by zone, rack and number; racks of different zones have equal names."""
    for zone in "abc"[:count]:
        for rack in range(racks):
            for number in range(size):
                world.add(f"{zone}{rack}{number}", total or GPUS, zone=zone, rack=f"r{rack}")


@pytest.mark.parametrize("rack_level", [STRICT_PACK, PACK, SPREAD, STRICT_SPREAD])
def test_zone_rack_and_node_are_kept_on_partial_loss(world, rack_level):
    """Whatever the rack's rule is, what is lost is replaced in the zone of what stayed."""
    zones(world, 2, 3, 3)
    topology = [("zone", STRICT_PACK), ("rack", rack_level)]
    world.create(1, [GPUS] * 2, STRICT_SPREAD, topology=topology)
    world.settle()
    agents = {agent.name: agent for agent in world.agents.values()}
    lost, stayed = world.places(1)
    assert lost[0] == stayed[0], "one zone"
    world.kill(agents[lost])
    world.settle()
    assert world.state(1) == "CREATED"
    now = world.places(1)
    assert now[1] == stayed
    assert now[0] not in (lost, stayed)
    assert now[0][0] == stayed[0], "the zone is kept"
    if rack_level in (STRICT_PACK, PACK):
        assert now[0][:2] == stayed[:2], "the rack is kept"
    else:
        assert now[0][:2] != stayed[:2], "another rack than that of the bundle that stayed"
    # The other zone is free, and stays so while something of the group lives here.
    for name in [name for name in agents if name[0] == stayed[0] and name != stayed]:
        if name != lost:
            world.kill(agents[name])
            world.settle()
    assert world.state(1) == "RESCHEDULING"
    answer = world.core.explain(group_id(1))
    (bundle,) = [one for one in answer.bundles if not one.placed_on]
    assert bundle.rejected["other_domain"] == 9
    assert bundle.fitting_nodes + sum(bundle.rejected.values()) == len(world.agents)
    world.kill(agents[stayed])
    world.settle()
    assert world.state(1) == "CREATED"
    assert {name[0] for name in world.places(1)} == set("ab") - {stayed[0]}
    world.check_at_rest()


def test_strict_spread_over_racks_explains_itself(world):
    """Racks of bundles that stayed are refused by name; too few racks are counted."""
    racks(world, 3, 2)
    world.create(1, [GPUS] * 4, STRICT_SPREAD, topology=[("rack", STRICT_SPREAD)])
    message = world.core.explain(group_id(1)).message
    assert message.endswith("6 fit {GPU: 4}; 4 bundles need a rack each, 3 have room")
    world.create(2, [GPUS] * 3, STRICT_SPREAD, topology=[("rack", STRICT_SPREAD)])
    world.settle()
    agents = {agent.name: agent for agent in world.agents.values()}
    for name in [name for name in agents if name[:2] == world.places(2)[0][:2]]:
        world.kill(agents[name])
    answer = world.core.explain(group_id(2))
    (bundle,) = [one for one in answer.bundles if not one.placed_on]
    assert dict(bundle.rejected) == {"spread_rule": 4}
    world.create(3, [GPUS] * 7, STRICT_SPREAD)
    assert "; 7 bundles need a node each" in world.core.explain(group_id(3)).message


def test_pack_over_racks_fills_a_rack_before_the_next_one(world):
    racks(world, 3, 3)
    world.create(1, [GPUS] * 5, STRICT_SPREAD, topology=[("rack", PACK)])
    world.settle()
    counts = sorted(
        [place[:2] for place in world.places(1)].count(rack) for rack in ("r0", "r1", "r2")
    )
    assert counts == [0, 2, 3]


def test_nodes_without_the_label_are_in_no_rack(world):
    world.add("a", GPUS)
    world.create(1, [GPUS], STRICT_SPREAD, topology=RACK)
    assert world.record(1).reason == "infeasible"
    assert world.core.explain(group_id(1)).bundles[0].rejected["label_mismatch"] == 1


def test_restart_may_use_the_same_nodes_again_once_their_workers_have_ended(world):
    agents = {name: world.add(name, {"CPU": 8}) for name in "abc"}
    world.create(1, [{"CPU": 1}] * 2, STRICT_SPREAD, on_loss=pg.ON_LOSS_RESTART)
    world.settle()
    lost, stayed = world.places(1)
    agents[stayed].busy = True
    world.kill(agents[lost])
    world.deliver(agents[stayed])
    assert world.core.record(group_id(1)).scheduling_attempts == 1
    world.settle()
    assert world.state(1) == "CREATED"
    assert sorted(world.places(1)) == sorted(set("abc") - {lost})
    assert agents[stayed].refusals == 0


def test_restart_goes_beside_old_bundles_that_take_long_to_end(world):
    """After a moment it takes other room of the same node; no prepare is refused."""
    agents = {name: world.add(name, {"CPU": 8}) for name in "ab"}
    world.create(1, [{"CPU": 1}] * 2, STRICT_SPREAD, on_loss=pg.ON_LOSS_RESTART)
    world.settle()
    lost, stayed = world.places(1)
    agents[stayed].busy = True
    world.kill(agents[lost])
    world.add("c", {"CPU": 8})
    world.deliver(agents[stayed])
    world.advance(GIVE_BACK_WAIT_MS)
    for _phase in ("prepare", "commit"):
        for agent in world.agents.values():
            world.deliver(agent, 10)
            world.answer(agent, 10)
    assert world.state(1) == "CREATED"
    assert sorted(world.places(1)) == sorted([stayed, "c"])
    assert len(agents[stayed].held) == 2
    assert agents[stayed].refusals == 0
    world.end_workers(agents[stayed])
    world.settle()
    for agent in world.agents.values():
        world.report(agent)
    world.check_at_rest()
