from __future__ import annotations

from cluster_common.labels import parse_selector
from gcs_service.core.placement.single import PickRequest
from tests.unit.gcs_service.placement.placement_agent import node_id, units
from tests.unit.gcs_service.placement.placement_world import STRICT_PACK


def pick(world, amounts, **more):
    return world.core.pick_node(PickRequest(units(amounts), **more))


def test_the_least_used_node_is_picked_once_it_is_half_full(world):
    a, b = world.add("a", {"CPU": 4}), world.add("b", {"CPU": 4})
    a.free["CPU"] = 10_000
    world.report(a)
    assert pick(world, {"CPU": 1}).node_id == b.node_id
    assert pick(world, {"CPU": 2}).node_id == b.node_id


def test_reasons_when_there_is_no_node(world):
    assert pick(world, {"CPU": 1}).reason == "infeasible"
    a = world.add("a", {"CPU": 4})
    a.free["CPU"] = 0
    world.report(a)
    assert pick(world, {"CPU": 1}).reason == "insufficient_free"
    assert "{CPU: 5}" in pick(world, {"CPU": 5}).message
    assert pick(world, {}).node_id == a.node_id


def test_affinity_and_selectors(world):
    a = world.add("a", {"CPU": 4}, kind="x")
    b = world.add("b", {"CPU": 4}, kind="y")
    assert pick(world, {"CPU": 1}, node_id=b.node_id).node_id == b.node_id
    assert pick(world, {"CPU": 9}, node_id=b.node_id).reason == "infeasible"
    assert pick(world, {"CPU": 1}, node_id=node_id("nobody")).reason == "node_gone"
    assert pick(world, {"CPU": 1}, node_id=node_id("nobody"), soft=True).node_id
    x = parse_selector({"kind": "x"})
    assert pick(world, {"CPU": 1}, selector=x).node_id == a.node_id
    assert pick(world, {"CPU": 1}, selector=x, node_id=b.node_id).reason == "infeasible"
    assert pick(world, {"CPU": 1}, selector=x, node_id=b.node_id, soft=True).node_id == a.node_id


def test_single_reservations_share_the_ledger_with_groups(world):
    a = world.add("a", {"CPU": 4})
    number = world.core.reserve(a.node_id, units({"CPU": 3}))
    assert number == 1
    world.create(1, [{"CPU": 2}], STRICT_PACK)
    assert world.state(1) == "PENDING"
    world.carry_out(world.core.release(a.node_id, number, world.now_ms))
    world.settle()
    assert world.state(1) == "CREATED"
    assert world.core.reserve(node_id("nobody"), {}) == 0


def test_a_single_reservation_ends_when_a_snapshot_covers_it(world):
    a = world.add("a", {"CPU": 4})
    number = world.core.reserve(a.node_id, units({"CPU": 3}))
    a.free["CPU"] -= 30_000
    a.applied = number
    world.report(a)
    ledger = world.core.ledger(a.node_id)
    assert (ledger.uncovered, ledger.room) == (0, {"CPU": 10_000})
    world.carry_out(world.core.release(a.node_id, number, world.now_ms))
    assert world.core.ledger(a.node_id) == ledger


def test_a_release_of_an_earlier_session_does_not_touch_a_bundles_reservation(world):
    a = world.add("a", {"CPU": 4})
    number = world.core.reserve(a.node_id, units({"CPU": 3}))
    world.cut(a)
    world.connect(a)
    world.create(1, [{"CPU": 2}], STRICT_PACK)
    world.carry_out(world.core.release(a.node_id, number, world.now_ms))
    assert world.core.ledger(a.node_id).room == {"CPU": 20_000}
    world.settle()
