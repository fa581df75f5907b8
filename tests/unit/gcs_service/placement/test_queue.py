from __future__ import annotations

import random

from gcs_service.core.placement.limits import OVERTAKES_MAX
from tests.unit.gcs_service.placement.placement_world import (
    STRICT_PACK,
    STRICT_SPREAD,
    World,
    group_id,
)

TWO = {"CPU": 2}


def test_more_groups_than_room_turn_ready_in_order_of_creation(world):
    """FIELD_REPORTS O-01: seven groups of 2 on 4 CPUs, each removed when it was ready."""
    world.add("a", {"CPU": 4})
    for number in range(1, 8):
        world.create(number, [TWO])
    ready = []
    while len(ready) < 7:
        world.settle()
        now = [n for n in range(1, 8) if world.state(n) == "CREATED" and n not in ready]
        assert now, "nobody is ready"
        ready.extend(now)
        for number in now:
            world.remove(number)
    assert ready == list(range(1, 8))


def test_a_group_that_fits_is_not_held_up_by_an_older_one_that_does_not(world):
    world.add("a", {"CPU": 4})
    world.create(1, [{"CPU": 8}])
    world.create(2, [{"CPU": 1}])
    world.settle()
    assert (world.state(1), world.state(2)) == ("PENDING", "CREATED")


def test_a_large_group_is_overtaken_a_bounded_number_of_times(world):
    a = world.add("a", {"CPU": 4})
    world.create(1000, [{"CPU": 1}])
    world.settle()
    world.create(1, [{"CPU": 4}], STRICT_PACK)
    alive = [1000]
    for number in range(2, 200):
        world.create(number, [{"CPU": 1}])
        world.settle()
        if world.state(number) == "CREATED":
            alive.append(number)
        # There is always a small group running, so the node is never empty by itself.
        if len(alive) > 1:
            world.remove(alive.pop(0))
            world.settle()
        if world.record(1).overtaken >= OVERTAKES_MAX:
            break
    assert world.record(1).overtaken == OVERTAKES_MAX
    world.create(500, [{"CPU": 1}])
    assert world.state(500) == "PENDING"
    assert world.record(500).reason == "queued_behind"
    assert world.core.explain(group_id(500)).bundles[0].rejected == {"queued_behind": 1}
    assert world.core.explain(group_id(500)).blocked_by == [group_id(1)]
    for number in alive:
        world.remove(number)
    world.settle()
    assert world.state(1) == "CREATED"
    assert world.record(1).overtaken == 0
    world.remove(1)
    world.settle()
    assert world.state(500) == "CREATED"
    assert a.refusals == 0


def test_claims_end_with_the_claimant(world):
    world.add("a", {"CPU": 4})
    world.create(1, [{"CPU": 1}])
    world.settle()
    world.create(2, [{"CPU": 4}], STRICT_PACK)
    for number in range(3, 3 + OVERTAKES_MAX):
        world.create(number, [{"CPU": 1}])
        world.settle()
        world.remove(number)
        world.settle()
    world.create(50, [{"CPU": 1}])
    assert world.state(50) == "PENDING"
    world.remove(2)
    world.settle()
    assert world.state(50) == "CREATED"
    world.check_at_rest()


def test_a_claimed_node_that_dies_is_replaced_by_another_claim(world):
    a = world.add("a", {"CPU": 4})
    b = world.add("b", {"CPU": 4})
    world.create(1, [{"CPU": 1}])
    world.create(2, [{"CPU": 4}])
    world.settle()
    world.create(3, [{"CPU": 4}], STRICT_PACK)
    for number in range(10, 10 + OVERTAKES_MAX):
        world.create(number, [{"CPU": 1}])
        world.settle()
        world.remove(number)
        world.settle()
    state = world.core._state
    (claimed,) = state.claimed
    world.kill({a.node_id: a, b.node_id: b}[claimed.node_id])
    (again,) = state.claimed
    assert again.node_id != claimed.node_id


def test_a_thousand_waiting_groups_cost_nothing_while_nothing_changes(world):
    a = world.add("a", {"CPU": 4})
    for number in range(1_000):
        world.create(number + 1, [{"CPU": 8 + number % 10}])
    asked = []
    index = world.core._state.index
    version = index.version
    for _ in range(50):
        world.report(a)
        world.advance(1_000)
        asked.extend(world.effects)
    assert asked == []
    assert index.version == version
    assert world.core.next_deadline_ms() is None


def test_pending_lists_what_is_still_to_be_placed(world):
    world.add("a")
    b = world.add("b")
    world.create(1, [{"CPU": 4}, {"CPU": 3}], STRICT_SPREAD)
    world.create(2, [{"CPU": 9}])
    world.settle()
    lost = world.places(1).index("b")
    world.kill(b)
    first, second = world.core.pending()
    assert [dict(one.resources.amounts) for one in first.bundles] == [
        {"CPU": (40_000, 30_000)[lost]}
    ]
    assert second.placement_group_id == group_id(2)


def test_label_changes_wake_groups(world):
    a = world.add("a")
    world.create(1, [{"CPU": 1}], selectors=[{"kind": "fast"}])
    assert world.record(1).reason == "infeasible"
    a.labels = {"kind": "fast"}
    world.report(a)
    world.settle()
    assert world.state(1) == "CREATED"


def test_a_lease_that_ends_on_the_agent_wakes_groups(world):
    a = world.add("a")
    a.free["CPU"] = 0
    world.report(a)
    world.create(1, [{"CPU": 4}])
    assert world.record(1).reason == "insufficient_free"
    a.free["CPU"] = 40_000
    world.report(a)
    world.settle()
    assert world.state(1) == "CREATED"


def test_many_groups_of_random_sizes_all_get_their_turn():
    dice = random.Random(5)
    world = World()
    for number in range(6):
        world.add(f"n{number}", {"CPU": 8}, rack=f"r{number % 2}")
    waiting = set(range(1, 120))
    for number in waiting:
        topology = [("rack", STRICT_PACK)] if dice.random() < 0.4 else []
        bundles = [{"CPU": dice.randint(1, 4)}] * dice.randint(1, 3)
        world.create(number, bundles, dice.choice([1, 2, 3, 4]), topology=topology)
    for _round in range(200):
        world.settle()
        world.check_books()
        created = [n for n in waiting if world.state(n) == "CREATED"]
        for number in created:
            waiting.discard(number)
            world.remove(number)
        if not waiting:
            break
        world.advance(1_000)
    feasible = [n for n in waiting if world.record(n).reason != "infeasible"]
    assert feasible == []
