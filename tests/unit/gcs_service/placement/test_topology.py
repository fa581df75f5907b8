from __future__ import annotations

import pytest

from cluster_api.v1 import placement_groups_pb2 as pg
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
