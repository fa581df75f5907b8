from __future__ import annotations

from tests.unit.gcs_service.placement.placement_world import (
    STATES,
    STRICT_SPREAD,
    group_id,
)

CPU = {"CPU": 1}


def test_a_lost_bundle_moves_and_the_others_stay(world):
    a, b = world.add("a"), world.add("b")
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.settle()
    before = world.record(1)
    c = world.add("c")
    world.kill(b)
    states = [STATES[record.state] for record in world.seen[group_id(1)]]
    assert states[-1] == "RESCHEDULING"
    assert "bundles 1 lost; on_loss=replace" in world.seen[group_id(1)][-1].message
    world.settle()
    after = world.record(1)
    assert world.places(1) == ["a", "c"]
    assert after.bundle_attempts[0] == before.bundle_attempts[0]
    assert after.bundle_attempts[1] > before.bundle_attempts[1]
    assert [entry for entry in a.log if "RETURN" in entry or "CANCEL" in entry] == []
    assert c.committed
    world.check_at_rest()


def test_two_nodes_die_close_together(world):
    """FIELD_REPORTS O-07: the second dies while the first is being replaced."""
    agents = [world.add(f"n{number}", CPU) for number in range(5)]
    world.create(1, [CPU] * 3, STRICT_SPREAD)
    world.settle()
    first, second, stays = world.places(1)
    by_name = {agent.name: agent for agent in agents}
    world.kill(by_name[first])
    (spare,) = [agent for agent in world.agents.values() if world.commands[agent.node_id]]
    world.deliver(spare)
    world.kill(by_name[second])
    world.settle()
    assert world.state(1) == "CREATED"
    places = world.places(1)
    assert places[2] == stays
    assert len(set(places)) == 3
    world.check_at_rest()


def test_a_second_loss_while_the_group_waits(world):
    agents = {agent.name: agent for agent in (world.add("a"), world.add("b"), world.add("c"))}
    world.create(1, [CPU] * 3, STRICT_SPREAD)
    world.settle()
    world.kill(agents["a"])
    world.kill(agents["b"])
    assert world.places(1).count("") == 2
    world.add("d")
    world.add("e")
    world.settle()
    assert sorted(world.places(1)) == ["c", "d", "e"]


def test_an_infeasible_group_is_placed_when_the_node_joins(world):
    """FIELD_REPORTS O-06."""
    world.add("head", {"CPU": 0})
    world.create(1, [{"CPU": 4}])
    assert world.record(1).reason == "infeasible"
    world.add("worker", {"CPU": 4})
    world.settle()
    assert world.state(1) == "CREATED"


def test_recovery_survives_a_restart(world):
    """FIELD_REPORTS O-14, first run: the loss is written before it is acted upon."""
    a, b = world.add("a"), world.add("b")
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.settle()
    world.kill(b)
    world.restart()
    assert world.state(1) == "RESCHEDULING"
    world.connect(a)
    world.add("c")
    world.settle()
    assert sorted(world.places(1)) == ["a", "c"]
    world.check_at_rest()


def test_commits_are_sent_again_after_a_restart_and_nothing_is_killed(world):
    """FIELD_REPORTS O-14, second run."""
    a, b = world.add("a"), world.add("b")
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    for agent in (a, b):
        world.deliver(agent)
        world.answer(agent)
    world.deliver(a)
    world.restart()
    assert world.state(1) == "PREPARED"
    world.connect(a)
    world.connect(b)
    world.settle()
    assert world.state(1) == "CREATED"
    assert not any("RETURN" in entry or "CANCEL" in entry for entry in a.log + b.log)
    world.check_at_rest()


def test_a_restart_before_prepared_was_written_undoes_what_the_nodes_hold(world):
    a, b = world.add("a", CPU), world.add("b", CPU)
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.deliver(a)
    world.restart()
    world.connect(a)
    assert a.log == [f"BUNDLE_ACTION_PREPARE {1 << 32 | 1}"]
    world.connect(b)
    world.settle()
    assert world.state(1) == "CREATED"
    assert a.log[1].startswith("BUNDLE_ACTION_CANCEL")
    world.report(a)
    world.check_at_rest()


def test_a_node_that_does_not_come_back_after_a_restart_is_lost(world):
    a, b = world.add("a"), world.add("b")
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.settle()
    del world.agents[b.node_id]
    world.restart()
    world.connect(a)
    world.add("c")
    assert world.core.expected_nodes() == [b.node_id]
    assert world.state(1) == "CREATED"
    world.carry_out(world.core.node_lost(b.node_id, world.now_ms))
    world.settle()
    assert sorted(world.places(1)) == ["a", "c"]


def test_a_node_nobody_says_anything_about_is_lost_after_a_while(world):
    a, b = world.add("a"), world.add("b")
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.settle()
    del world.agents[b.node_id]
    world.restart()
    world.connect(a)
    world.add("c")
    world.advance(61_000)
    world.settle()
    assert sorted(world.places(1)) == ["a", "c"]


def test_a_removal_goes_on_after_a_restart(world):
    a = world.add("a")
    world.create(1, [CPU])
    world.settle()
    world.remove(1)
    world.restart()
    assert world.state(1) == "REMOVING"
    world.connect(a)
    world.settle()
    assert world.record(1).state == 5
    assert not world.stored
    world.check_at_rest()


def test_a_new_session_takes_statements_for_lost_answers(world):
    a, b = world.add("a"), world.add("b")
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.deliver(a)
    world.deliver(b)
    world.answer(b)
    world.cut(a)
    world.connect(a)
    world.settle()
    assert world.state(1) == "CREATED"
    assert [entry.split()[0] for entry in a.log] == [
        "BUNDLE_ACTION_PREPARE",
        "BUNDLE_ACTION_COMMIT",
    ]
    world.report(a)
    world.report(b)
    world.check_at_rest()


def test_bundles_a_node_gave_up_meanwhile_are_lost(world):
    a, _b = world.add("a"), world.add("b")
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.settle()
    world.cut(a)
    a.held.clear()
    a.committed.clear()
    a.free = dict(a.total)
    world.connect(a)
    world.settle()
    assert world.state(1) == "CREATED"
    assert "came back without its bundles" in " ".join(r.message for r in world.seen[group_id(1)])
    world.check_at_rest()


def test_nothing_goes_to_a_node_that_is_away_or_draining(world):
    a, b = world.add("a"), world.add("b")
    world.cut(a)
    world.drain(b)
    world.create(1, [CPU])
    assert (world.state(1), world.record(1).reason) == ("PENDING", "insufficient_free")
    world.drain(b, draining=False)
    world.settle()
    assert world.places(1) == ["b"]


def test_a_group_that_only_fits_draining_nodes_says_so(world):
    a = world.add("a", {"CPU": 8})
    world.add("b")
    world.drain(a)
    world.create(1, [{"CPU": 8}])
    assert world.record(1).reason == "draining"
    assert world.core.explain(group_id(1)).bundles[0].rejected == {
        "draining": 1,
        "shape_too_large": 1,
    }
    world.kill(a)
    assert world.record(1).reason == "infeasible"
