from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.core.placement.effects import (
    GroupAccepted,
    GroupChanged,
    GroupRefused,
    PersistGroup,
    RemovalAccepted,
    SendBundle,
)
from tests.unit.gcs_service.placement.placement_world import (
    SPREAD,
    STATES,
    STRICT_PACK,
    STRICT_SPREAD,
    group_id,
    make_spec,
)

CPU = {"CPU": 1}


def names(effects):
    found = []
    for effect in effects:
        match effect:
            case SendBundle(_node, command):
                found.append(ns.BundleAction.Name(command.action).removeprefix("BUNDLE_ACTION_"))
            case PersistGroup(record) | GroupChanged(record):
                found.append(f"{type(effect).__name__} {STATES[record.state]}")
            case _:
                found.append(type(effect).__name__)
    return found


def pair(world, cpus=1):
    return world.add("a", {"CPU": cpus}), world.add("b", {"CPU": cpus})


def test_the_whole_life_of_a_group_in_effects(world):
    a, b = pair(world)
    assert names(world.create(1, [CPU] * 2, STRICT_SPREAD)) == [
        "PREPARE",
        "PREPARE",
        "PersistGroup PENDING",
        "GroupAccepted",
        "GroupChanged PENDING",
    ]
    world.deliver(a)
    world.answer(a)
    assert world.effects == []
    world.deliver(b)
    world.answer(b)
    assert names(world.effects) == [
        "PersistGroup PREPARED",
        "GroupChanged PREPARED",
        "COMMIT",
        "COMMIT",
    ]
    world.deliver(a)
    world.answer(a)
    world.deliver(b)
    world.answer(b)
    assert names(world.effects) == ["PersistGroup CREATED", "GroupChanged CREATED"]
    assert names(world.remove(1)) == [
        "PersistGroup REMOVING",
        "RemovalAccepted",
        "GroupChanged REMOVING",
        "RETURN",
        "RETURN",
    ]
    world.deliver(a)
    world.answer(a)
    world.deliver(b)
    world.answer(b)
    assert names(world.effects) == ["ForgetGroup", "GroupChanged REMOVED"]
    world.report(a)
    world.report(b)
    world.check_at_rest()


def test_a_group_on_one_node_takes_one_phase(world):
    a = world.add("a")
    assert names(world.create(1, [CPU] * 3, STRICT_PACK))[0] == "PREPARE_AND_COMMIT"
    world.deliver(a)
    world.answer(a)
    assert names(world.effects) == ["PersistGroup CREATED", "GroupChanged CREATED"]


def test_a_refusal_cancels_everywhere_without_waiting_and_the_group_comes_back_later(world):
    _a, b = pair(world)
    c = world.add("c")
    world.drain(c)
    b.free["CPU"] = 0  # somebody leased it, the report is late
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.deliver(b)
    world.answer(b)
    assert names(world.effects) == ["CANCEL"]
    assert world.state(1) == "PENDING"
    world.drain(c, draining=False)
    # A is reserved still, its cancel is on the way; nobody waits for B.
    world.settle()
    world.calm(2_000)
    assert sorted(world.places(1)) == ["a", "c"]
    assert world.record(1).scheduling_attempts >= 2
    assert world.record(1).highest_retry_delay_ms >= 100


def test_refusals_back_off_up_to_a_second(world):
    a, _b = pair(world)
    a.free["CPU"] = 0
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.settle(report=False)
    for _ in range(40):
        world.advance(250)
        world.settle(report=False)
    assert world.record(1).highest_retry_delay_ms == 1_000
    assert 5 <= a.refusals <= 14


def test_a_stale_report_does_not_make_a_full_node_look_free(world):
    """FIELD_REPORTS O-05: the report is older than the reservation."""
    a, b = world.add("a", {"X": 8}), world.add("b", {"X": 8})
    world.create(1, [{"X": 8}], STRICT_PACK)
    full, empty = (a, b) if world.commands[a.node_id] else (b, a)
    world.report(full)  # knows nothing of the reservation, which is still on its way
    world.create(2, [{"X": 8}], STRICT_PACK)
    world.settle()
    assert (world.places(1), world.places(2)) == ([full.name], [empty.name])
    assert a.refusals == b.refusals == 0


def test_nothing_is_refused_however_late_the_reports_are(world):
    for number in range(8):
        world.add(f"n{number}", {"X": 2})
    for round_number in range(6):
        for number in range(8):
            world.create(round_number * 8 + number + 1, [{"X": 1}] * 2, SPREAD)
        world.settle(report=False)
        for number in range(8):
            world.remove(round_number * 8 + number + 1)
        world.settle(report=False)
    assert sum(agent.refusals for agent in world.agents.values()) == 0
    for agent in world.agents.values():
        assert world.core.ledger(agent.node_id).room == agent.free
        world.report(agent)
    world.check_at_rest()


def test_removing_a_group_while_a_prepare_never_answers_frees_the_rest(world):
    """FIELD_REPORTS O-04."""
    a, b = pair(world)
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.deliver(a)
    world.answer(a)
    world.kill(b)
    assert names(world.remove(1))[:2] == ["PersistGroup REMOVING", "RemovalAccepted"]
    world.add("c")
    a.labels = {"host": "a"}
    world.report(a)
    world.create(2, [CPU], selectors=[{"host": "a"}])
    world.settle()
    assert (world.state(1), world.state(2), world.places(2)) == ("REMOVED", "CREATED", ["a"])
    world.check_at_rest()


def test_a_late_prepare_answer_of_a_removed_group_is_undone(world):
    a, b = pair(world)
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.remove(1)
    world.deliver(a)
    late = world.answers[a.node_id].popleft()
    world.settle()
    assert world.state(1) == "REMOVED"
    world.carry_out(world.core.bundle_answer(a.node_id, late, world.now_ms, world.wall_ms))
    assert names(world.effects) == ["CANCEL"]
    world.settle()
    world.check_at_rest()
    assert b.held == {}


def test_commits_are_repeated_until_they_are_answered(world):
    a, b = pair(world)
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    for agent in (a, b):
        world.deliver(agent)
        world.answer(agent)
    world.commands[a.node_id].clear()
    world.settle()
    assert world.state(1) == "PREPARED"
    world.advance(6_000)
    world.settle()
    assert world.state(1) == "CREATED"
    world.report(a)
    world.report(b)
    world.check_at_rest()


def test_a_refused_commit_is_tried_again_soon(world):
    a, b = pair(world)
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    for agent in (a, b):
        world.deliver(agent)
        world.answer(agent)
    command = world.commands[a.node_id].popleft()
    refusal = ns.BundleAnswer(
        action=command.action,
        placement_group_id=command.placement_group_id,
        attempt=command.attempt,
        reason="injected",
    )
    a.applied = command.reservation_seq
    world.carry_out(world.core.bundle_answer(a.node_id, refusal, world.now_ms, world.wall_ms))
    world.advance(100)
    world.settle()
    assert world.state(1) == "CREATED"


def test_a_refused_return_is_tried_again_and_counted(world):
    a = world.add("a")
    world.create(1, [CPU])
    world.settle()
    world.remove(1)
    command = world.commands[a.node_id].popleft()
    refusal = ns.BundleAnswer(
        action=command.action,
        placement_group_id=command.placement_group_id,
        attempt=command.attempt,
        reason="injected",
    )
    world.carry_out(world.core.bundle_answer(a.node_id, refusal, world.now_ms, world.wall_ms))
    assert world.state(1) == "REMOVING"
    world.advance(150)
    assert world.record(1).removal_attempts == 1
    world.settle()
    assert world.state(1) == "REMOVED"
    world.check_at_rest()


def test_a_silent_node_fails_the_attempt_in_the_end(world):
    a, b = pair(world)
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    world.deliver(a)
    world.answer(a)
    world.commands[b.node_id].clear()
    world.add("c")
    world.advance(31_000)
    world.settle()
    world.calm(2_000)
    assert sorted(world.places(1)) == ["a", "c"]


def test_a_node_that_dies_between_the_phases_fails_the_attempt_as_a_whole(world):
    a, b = pair(world)
    world.create(1, [CPU] * 2, STRICT_SPREAD)
    for agent in (a, b):
        world.deliver(agent)
        world.answer(agent)
    world.deliver(a)
    world.answer(a)
    world.kill(b)
    assert STATES[world.stored[group_id(1)].state] == "PENDING"
    assert names(world.effects)[:3] == ["PersistGroup PENDING", "GroupChanged PENDING", "CANCEL"]
    world.add("c")
    world.settle()
    assert sorted(world.places(1)) == ["a", "c"]
    world.check_at_rest()


def test_repeated_requests_are_answered_again(world):
    world.add("a")
    world.create(1, [CPU])
    world.settle()
    assert names(world.create(1, [CPU])) == ["GroupAccepted", "GroupChanged CREATED"]
    world.remove(1)
    assert names(world.remove(1)) == ["RemovalAccepted"]
    world.settle()
    assert names(world.remove(1)) == ["RemovalAccepted", "GroupChanged REMOVED"]
    assert names(world.create(1, [CPU])) == ["GroupAccepted", "GroupChanged REMOVED"]
    assert names(world.remove(77)) == ["RemovalAccepted"]


def test_a_name_belongs_to_one_living_group(world):
    world.add("a")
    world.create(1, [CPU], name="x", namespace="n")
    world.create(2, [CPU], name="x", namespace="n")
    assert world.replies[-1] == GroupRefused(
        group_id(2), "name_taken", "placement group name 'x' is taken in namespace 'n'"
    )
    world.create(3, [CPU], name="x", namespace="other")
    assert world.replies[-1] == GroupAccepted(group_id(3))
    world.remove(1)
    assert world.replies[-1] == RemovalAccepted(group_id(1))
    world.create(4, [CPU], name="x", namespace="n")
    assert world.core.by_name("n", "x").spec.placement_group_id == group_id(4)


def test_groups_end_with_their_creator(world):
    world.add("a", {"CPU": 32})
    fields = {
        1: {"job_id": b"j", "creator_owner_id": b"d"},
        2: {"job_id": b"j", "creator_owner_id": b"d", "detached": True},
        3: {"job_id": b"j", "creator_owner_id": b"w", "creator_actor_id": b"A"},
        4: {
            "job_id": b"j",
            "creator_owner_id": b"w",
            "creator_actor_id": b"D",
            "creator_actor_detached": True,
        },
        5: {"job_id": b"k", "creator_owner_id": b"e"},
        6: {"job_id": b"j", "creator_owner_id": b"w"},
    }
    for number, more in fields.items():
        world.create(number, [CPU], **more)
    world.settle()

    def alive():
        return [number for number in fields if world.state(number) == "CREATED"]

    world.carry_out(world.core.owner_ended(b"d", world.now_ms))
    world.settle()
    assert alive() == [2, 3, 4, 5, 6]
    world.carry_out(world.core.actor_ended(b"A", world.now_ms))
    world.settle()
    assert alive() == [2, 4, 5, 6]
    world.carry_out(world.core.job_ended(b"j", world.now_ms))
    world.settle()
    assert alive() == [2, 4, 5]
    world.carry_out(world.core.actor_ended(b"D", world.now_ms))
    world.settle()
    assert alive() == [2, 5]
    world.check_at_rest()


def test_an_id_is_required(world):
    spec = make_spec(1, [CPU])
    spec.placement_group_id = b""
    world.carry_out(world.core.create(spec, 0, 0))
    assert world.replies[-1].reason == "bad_request"
