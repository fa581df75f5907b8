from __future__ import annotations

import pytest

from tests.unit.gcs_service.placement.placement_world import (
    STATES,
    STRICT_PACK,
    STRICT_SPREAD,
    group_id,
    make_spec,
)

RACK = [("rack", STRICT_PACK)]


def check_sums(world, answer):
    for bundle in answer.bundles:
        assert bundle.fitting_nodes + sum(bundle.rejected.values()) == len(world.agents)


def test_counts_of_every_reason_add_up_to_the_nodes_alive(world):
    world.add("small", {"CPU": 1})
    world.add("busy", {"CPU": 4}).free["CPU"] = 10_000
    world.report(next(a for a in world.agents.values() if a.name == "busy"))
    drained = world.add("drained", {"CPU": 4}, kind="x")
    world.drain(drained)
    world.add("other", {"CPU": 4}, kind="y")
    gone = world.add("away", {"CPU": 4}, kind="x")
    world.cut(gone)
    world.create(1, [{"CPU": 2}], selectors=[{"kind": "!y"}])
    answer = world.core.explain(group_id(1))
    assert dict(answer.bundles[0].rejected) == {
        "shape_too_large": 1,
        "insufficient_free": 1,
        "draining": 1,
        "label_mismatch": 1,
        "disconnected": 1,
    }
    check_sums(world, answer)
    assert answer.found
    assert not answer.fits
    assert answer.reason == "insufficient_free"
    assert "of 5 nodes alive 0 fit {CPU: 2}" in answer.message


def test_spread_rule_counts_nodes_of_bundles_that_stayed(world):
    world.add("a")
    b = world.add("b")
    world.create(1, [{"CPU": 1}] * 2, STRICT_SPREAD)
    world.settle()
    world.kill(b)
    answer = world.core.explain(group_id(1))
    lost = next(bundle for bundle in answer.bundles if not bundle.placed_on)
    assert dict(lost.rejected) == {"spread_rule": 1}
    check_sums(world, answer)


def test_domain_incomplete_counts_nodes_that_fit_in_domains_that_do_not(world):
    for rack, size in (("r0", 2), ("r1", 1)):
        for number in range(size):
            world.add(f"{rack}{number}", {"GPU": 4}, rack=rack)
    world.create(1, [{"GPU": 4}] * 3, STRICT_SPREAD, topology=RACK)
    answer = world.core.explain(group_id(1))
    assert dict(answer.bundles[0].rejected) == {"domain_incomplete": 3}
    assert (answer.best_domain.value, answer.best_domain.fitting) == ("r0", 2)
    check_sums(world, answer)


def test_a_placed_group_is_explained_too(world):
    world.add("a", {"CPU": 1})
    world.add("b", {"CPU": 1})
    world.create(1, [{"CPU": 1}])
    world.settle()
    answer = world.core.explain(group_id(1))
    assert (answer.reason, answer.fits) == ("placed", True)
    assert answer.bundles[0].placed_on
    check_sums(world, answer)


def test_unknown_and_removed_groups(world):
    world.add("a")
    assert not world.core.explain(group_id(1)).found
    world.create(1, [{"CPU": 1}])
    world.settle()
    world.remove(1)
    world.settle()
    answer = world.core.explain(group_id(1))
    assert (answer.found, answer.reason, STATES[answer.state]) == (True, "removed", "REMOVED")


def test_would_fit_reserves_nothing(world):
    a = world.add("a")
    before = world.core.ledger(a.node_id)
    fits = world.core.would_fit(make_spec(1, [{"CPU": 4}]))
    assert (fits.fits, fits.reason, fits.bundles[0].fitting_nodes) == (True, "fits", 1)
    too_much = world.core.would_fit(make_spec(1, [{"CPU": 4}] * 2))
    assert (too_much.fits, too_much.reason) == (False, "infeasible")
    assert world.core.ledger(a.node_id) == before
    assert world.core.records() == []
    with pytest.raises(ValueError, match="at least one bundle"):
        world.core.would_fit(make_spec(1, []))


def test_device_fragmentation_is_told_from_too_little(world):
    a = world.add("a", {"CPU": 4, "GPU": 2})
    a.free["GPU"] = 10_000
    snapshot = a.snapshot()
    snapshot.devices["GPU"].free.extend([5_000, 5_000])
    world.carry_out(world.core.node_snapshot(a.node_id, snapshot, world.now_ms))
    world.create(1, [{"GPU": 1}])
    answer = world.core.explain(group_id(1))
    assert dict(answer.bundles[0].rejected) == {"device_fragmentation": 1}
    assert world.record(1).reason == "device_fragmentation"
    world.create(2, [{"GPU": 0.5}] * 2, STRICT_PACK)
    world.settle(report=False)
    assert world.state(2) == "CREATED"


def test_records_are_newest_first_and_removed_ones_last(world):
    world.add("a", {"CPU": 64})
    for number in (1, 2, 3):
        world.create(number, [{"CPU": 1}])
    world.settle()
    world.remove(2)
    world.settle()
    ids = [record.spec.placement_group_id for record in world.core.records()]
    assert ids == [group_id(3), group_id(1), group_id(2)]


def test_a_kept_explanation_follows_the_nodes(world):
    a = world.add("a", {"CPU": 4})
    world.create(1, [{"CPU": 8}])
    world.create(2, [{"CPU": 8}])
    assert world.core.explain(group_id(1)).bundles == world.core.explain(group_id(2)).bundles
    world.add("b", {"CPU": 4})
    answer = world.core.explain(group_id(2))
    assert dict(answer.bundles[0].rejected) == {"shape_too_large": 2}
    world.drain(a)
    answer = world.core.explain(group_id(1))
    assert dict(answer.bundles[0].rejected) == {"shape_too_large": 1, "draining": 1}
    world.cut(a)
    world.drain(a, draining=False)
    answer = world.core.explain(group_id(1))
    assert dict(answer.bundles[0].rejected) == {"shape_too_large": 1, "disconnected": 1}
    check_sums(world, answer)


def test_where_no_rack_has_room_the_largest_is_the_best(world):
    for rack, size in (("r0", 1), ("r1", 3)):
        for number in range(size):
            world.add(f"{rack}{number}", {"GPU": 4}, rack=rack)
    world.create(1, [{"GPU": 4}] * 4)
    world.settle()
    world.create(2, [{"GPU": 4}] * 3, STRICT_SPREAD, topology=RACK)
    answer = world.core.explain(group_id(2))
    best = answer.best_domain
    assert (best.value, best.fitting, best.wanted) == ("r1", 0, 3)
    assert best.lacks == "room for 3 more x {GPU: 4}"
    assert list(answer.blocked_by) == [group_id(1)]
    check_sums(world, answer)


def test_what_is_too_large_for_the_empty_cluster_is_blocked_by_nobody(world):
    world.add("a", {"CPU": 4}, rack="r0")
    world.create(1, [{"CPU": 4}])
    world.settle()
    world.create(2, [{"CPU": 4}] * 2, STRICT_SPREAD, topology=RACK)
    answer = world.core.explain(group_id(2))
    assert answer.reason == "infeasible"
    assert "even empty; best rack is r0: room for 1 of 2 bundles; of 1 nodes" in answer.message
    best = answer.best_domain
    assert (best.value, best.fitting, best.wanted) == ("r0", 1, 2), "as if nothing ran there"
    assert list(answer.blocked_by) == []


def test_a_status_explains_as_many_waiting_groups_as_its_looks_allow(world):
    for number in range(4):
        world.add(f"n{number}", {"CPU": 4})
    for number in (1, 2):
        world.create(number, [{"CPU": 8}])
    world.create(3, [{"CPU": 16}])
    texts = world.core.waiting_texts(8)
    assert set(texts) == {group_id(1), group_id(2), group_id(3)}
    message = world.core.explain(group_id(1)).message
    assert texts[group_id(1)] == texts[group_id(2)] == message.removeprefix("infeasible: ")
    # The oldest are explained whatever it costs.
    assert set(world.core.waiting_texts(1)) == {group_id(1), group_id(2)}
