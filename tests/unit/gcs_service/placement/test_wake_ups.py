"""Every event that can let a waiting group be placed wakes it at once; others wake nobody.

No time passes in these tests: what is placed was woken by the event itself.
"""

from __future__ import annotations

import sys

import pytest

from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.placement.limits import OVERTAKES_MAX
from tests.unit.gcs_service.placement.placement_world import (
    STRICT_PACK,
    STRICT_SPREAD,
    World,
    group_id,
)

RACK = [("rack", STRICT_PACK)]


def waits(world, reason, number=1):
    assert world.state(number) in ("PENDING", "RESCHEDULING")
    assert world.record(number).reason == reason


def placed(world, number=1):
    world.settle()
    assert world.state(number) == "CREATED"
    world.check_at_rest()


def test_a_node_that_joins(world):
    world.add("small", {"CPU": 2})
    world.create(1, [{"CPU": 8}])
    waits(world, "infeasible")
    world.add("large", {"CPU": 8})
    placed(world)


def test_a_node_that_comes_back(world):
    away = world.add("away", {"CPU": 8})
    world.cut(away)
    world.create(1, [{"CPU": 8}])
    world.connect(away)
    placed(world)


def test_the_loss_of_the_nodes_that_bound_it_to_a_rack(world):
    """O-06: its rack cannot hold it any more; with nothing of it left there, any rack will do."""
    nodes = {f"{rack}{n}": world.add(f"{rack}{n}", rack=rack) for rack in "pq" for n in range(3)}
    world.create(1, [{"CPU": 4}] * 3, STRICT_SPREAD, topology=RACK)
    world.settle()
    first, *rest = world.places(1)
    world.kill(nodes[first])
    world.settle()
    waits(world, "infeasible")
    for name in rest:
        world.kill(nodes[name])
    placed(world)
    assert {name[0] for name in world.places(1)} == set("pq") - {first[0]}


def test_another_label(world):
    node = world.add("a", kind="slow")
    world.create(1, [{"CPU": 1}], selectors=[{"kind": "fast"}])
    waits(world, "infeasible")
    node.labels = {"kind": "fast"}
    world.report(node)
    placed(world)


def test_another_total(world):
    node = world.add("a", {"CPU": 4})
    world.create(1, [{"CPU": 8}])
    waits(world, "infeasible")
    node.total["CPU"] *= 2
    node.free["CPU"] = node.total["CPU"]
    world.report(node)
    placed(world)


def test_a_smaller_total_changes_the_reason(world):
    node = world.add("a", {"CPU": 8})
    world.create(2, [{"CPU": 8}])
    world.settle()
    world.create(1, [{"CPU": 8}])
    waits(world, "insufficient_free")
    node.total["CPU"] //= 2
    world.report(node)
    waits(world, "infeasible")


def test_a_group_that_is_removed(world):
    world.add("a", {"CPU": 8})
    world.create(2, [{"CPU": 8}])
    world.settle()
    world.create(1, [{"CPU": 8}])
    waits(world, "insufficient_free")
    world.remove(2)
    placed(world)


def test_a_drain_that_begins_where_room_was_kept(world):
    """What was kept for the oldest group is kept elsewhere; the reason says who drains."""
    nodes = [world.add(name, {"CPU": 4}) for name in "ab"]
    world.create(2, [{"CPU": 1}])
    world.create(3, [{"CPU": 4}])
    world.settle()
    world.create(1, [{"CPU": 4}], STRICT_PACK)
    for number in range(10, 10 + OVERTAKES_MAX):
        world.create(number, [{"CPU": 1}])
        world.settle()
        world.remove(number)
        world.settle()
    (kept,) = world.core._state.claimed
    ours = next(node for node in nodes if node.node_id == kept.node_id)
    world.drain(ours)
    (again,) = world.core._state.claimed
    assert again is not kept
    world.remove(3)
    world.remove(2)
    placed(world)
    assert world.places(1) == [next(node.name for node in nodes if node is not ours)]


def test_a_drain_that_begins_changes_the_reason(world):
    node = world.add("a", {"CPU": 8})
    world.create(2, [{"CPU": 8}])
    world.settle()
    world.create(1, [{"CPU": 8}])
    waits(world, "insufficient_free")
    world.drain(node)
    waits(world, "draining")


def test_a_drain_that_is_cancelled(world):
    node = world.add("a", {"CPU": 8})
    world.drain(node)
    world.create(1, [{"CPU": 8}])
    waits(world, "draining")
    world.drain(node, draining=False)
    placed(world)


def test_a_lease_that_is_returned(world):
    node = world.add("a", {"CPU": 8})
    node.free["CPU"] = 0
    world.report(node)
    world.create(1, [{"CPU": 8}])
    waits(world, "insufficient_free")
    node.free["CPU"] = node.total["CPU"]
    world.report(node)
    placed(world)


def test_a_start_that_the_control_service_gives_up(world):
    node = world.add("a", {"CPU": 8})
    number = world.core.reserve(node.node_id, {"CPU": 80_000})
    world.create(1, [{"CPU": 8}])
    waits(world, "insufficient_free")
    world.carry_out(world.core.release(node.node_id, number, world.now_ms))
    placed(world)


def test_an_older_group_that_stops_claiming(world):
    world.add("a", {"CPU": 4})
    world.create(2, [{"CPU": 1}])
    world.settle()
    world.create(3, [{"CPU": 4}], STRICT_PACK)
    for number in range(10, 10 + OVERTAKES_MAX):
        world.create(number, [{"CPU": 1}])
        world.settle()
        world.remove(number)
        world.settle()
    world.create(1, [{"CPU": 1}])
    waits(world, "queued_behind")
    world.remove(3)
    placed(world)


def test_only_a_node_that_is_new_wakes_a_group_that_waits_for_one(world):
    nodes = {name: world.add(name) for name in "abc"}
    world.create(1, [{"CPU": 4}] * 2, STRICT_SPREAD, on_loss=pg.ON_LOSS_WAIT)
    world.settle()
    world.kill(nodes[world.places(1)[0]])
    for node in world.agents.values():
        world.report(node)
        world.settle()
    waits(world, "rescheduling")
    world.add("d")
    placed(world)


def calls_of(act) -> int:
    """Functions of the placement core that are called meanwhile."""
    count = 0

    def seen(frame, event, _argument):
        nonlocal count
        count += event == "call" and "/core/placement/" in frame.f_code.co_filename

    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def world_with(pending: int) -> World:
    world = World()
    for number in range(4):
        world.add(f"n{number}", {"CPU": 4})
    for number in range(pending):
        world.create(number + 1, [{"CPU": 5 + number % 100}])
    return world


@pytest.mark.parametrize("pending", [1, 1_000])
def test_waiting_groups_cost_nothing_while_nothing_changes(pending):
    """Reports and ticks do the same with a thousand waiting groups as with none."""

    def quiet(world):
        for _ in range(10):
            for node in list(world.agents.values()):
                world.report(node)
            world.carry_out(world.core.tick(world.now_ms))
            world.advance(60_000)

    none, many = world_with(0), world_with(pending)
    assert calls_of(lambda: quiet(many)) == calls_of(lambda: quiet(none))
    assert many.core.next_deadline_ms() is None


def test_what_becomes_free_looks_at_the_shapes_that_wait_not_at_the_groups():
    """A thousand equal groups: one node's small room costs as much as with a single one."""

    def freed(world):
        node = next(iter(world.agents.values()))
        for free in (1, 2, 3, 4):
            node.free["CPU"] = free * 10_000
            world.report(node)

    one, many = world_with(0), world_with(0)
    one.create(1, [{"CPU": 8}])
    for number in range(1_000):
        many.create(number + 1, [{"CPU": 8}])
    assert calls_of(lambda: freed(many)) == calls_of(lambda: freed(one))
    assert many.core.record(group_id(1)).reason == "infeasible"
