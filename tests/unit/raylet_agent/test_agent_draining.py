"""The agent's side of a drain: nothing new, who is told what, and when the agent goes."""

from __future__ import annotations

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent import limits
from tests.unit.raylet_agent.agent_world import HERE, OTHER, World

PREPARE_AND_COMMIT = n.BUNDLE_ACTION_PREPARE_AND_COMMIT
GROUP = b"g" * 24


def preempt(world, deadline_ms=60_000, **fields):
    order = n.DrainCommand(
        reason=n.DRAIN_REASON_PREEMPTION, deadline_ms=world.now_ms + deadline_ms, **fields
    )
    world.gcs(drain=order)


def end_if_idle(world):
    world.gcs(drain=n.DrainCommand(reason=n.DRAIN_REASON_IDLE_TERMINATION))


def drain_answers(world):
    found = [i.drain_answer for i in world.gcs_items if i.HasField("drain_answer")]
    world.gcs_items = [i for i in world.gcs_items if not i.HasField("drain_answer")]
    return found


def test_owners_hear_of_the_drain_before_the_gcs_hears_of_the_acceptance(world):
    world.ask(1)
    world.heard()
    order = n.DrainCommand(reason=n.DRAIN_REASON_PREEMPTION, deadline_ms=world.now_ms + 1_000)
    world.core.gcs_item(n.GcsItem(node_id=HERE, drain=order), world.now_ms)
    told = [
        effect.item.WhichOneof("item")
        for effect in world.core.drain()
        if type(effect).__name__ in ("SendToOwner", "SendToGcs")
    ]
    assert told == ["node_change", "drain_answer"]


def test_a_draining_node_sends_requests_to_the_scheduler(world):
    world.core.facts.scheduler_address = "scheduler:1"
    held = world.ask(1)
    world.heard()
    preempt(world)
    asked = world.ask(2)
    assert world.heard() == [("node_change", b""), ("redirect", asked)]
    world.give_back(held)
    assert world.free() == 4


def test_a_lease_without_a_worker_yet_goes_elsewhere(world):
    world.auto_register = False
    asked = world.ask(1)
    preempt(world)
    assert world.heard() == [("node_change", b""), ("reject", asked)]
    assert world.free() == 4


def test_work_in_a_bundle_waits_for_the_bundle_to_move(world):
    world.bundle(PREPARE_AND_COMMIT, b0={"CPU": 2})
    first = world.ask(1, group=GROUP)
    assert world.heard() == [("grant", first)]
    preempt(world, 10_000)
    second = world.ask(2, group=GROUP)
    assert world.heard() == [("node_change", b"")]
    world.advance(10_000)
    kinds = world.heard()
    assert ("worker_ended", first) in kinds
    assert ("failed", second) in kinds


def test_what_runs_at_the_deadline_was_preempted_and_then_the_agent_goes(world):
    held = world.ask(1)
    preempt(world, 10_000, message="spot")
    assert [answer.accepted for answer in drain_answers(world)] == [True]
    world.advance(8_999)
    assert world.ends == []
    world.advance(1)
    ended = world.items("worker_ended")[0]
    assert (ended.lease_id, ended.cause) == (held, a.WORKER_END_CAUSE_PREEMPTED)
    assert "spot" in ended.message
    assert [(e.cause, e.message) for e in world.ends] == [(t.NODE_DEATH_CAUSE_PREEMPTED, "spot")]


def test_a_process_that_does_not_end_holds_nobody_up(world):
    world.auto_kill = False
    world.ask(1)
    preempt(world, 1_000)
    world.advance(1_000)
    assert world.ends == []
    world.advance(limits.DRAIN_KILL_MS)
    assert len(world.ends) == 1


def test_an_empty_node_goes_at_once_unless_a_driver_lives_on_it():
    world = World()
    preempt(world)
    assert [effect.cause for effect in world.ends] == [t.NODE_DEATH_CAUSE_PREEMPTED]
    with_driver = World()
    with_driver.open()
    preempt(with_driver, 10_000)
    assert with_driver.ends == []
    with_driver.advance(10_000)
    assert len(with_driver.ends) == 1


def test_an_idle_drain_is_declined_by_whatever_makes_a_node_busy():
    world = World()
    world.open(OTHER, home=False, driver=False)
    held = world.ask(1, OTHER)
    end_if_idle(world)
    world.give_back(held, owner=OTHER)
    world.bundle(PREPARE_AND_COMMIT, b0={"CPU": 1})
    end_if_idle(world)
    world.bundle(n.BUNDLE_ACTION_RETURN, b0={})
    world.open()
    end_if_idle(world)
    declined = drain_answers(world)
    assert [answer.accepted for answer in declined] == [False] * 3
    texts = [answer.message.rpartition(": ")[2] for answer in declined]
    assert texts == ["1 leases", "1 bundles", "a driver"]
    assert not world.core.facts.draining


def test_an_idle_node_accepts_and_goes():
    world = World()
    end_if_idle(world)
    assert [answer.accepted for answer in drain_answers(world)] == [True]
    assert [effect.cause for effect in world.ends] == [t.NODE_DEATH_CAUSE_DRAINED_IDLE]


def test_owners_of_a_refused_node_hear_why_it_ends(world):
    world.core.refused("refused by the GCS: other_cluster")
    world.run()
    changes = world.items("node_change")
    assert [(c.node.state, c.node.death_cause) for c in changes] == [
        (t.NODE_STATE_DEAD, t.NODE_DEATH_CAUSE_REFUSED)
    ]
    assert changes[0].node.node_id == world.core.facts.node_id
    assert "other_cluster" in changes[0].node.death_message


def test_a_withdrawn_drain_lets_work_in_again(world):
    held = world.ask(1, resources={"CPU": 4})
    preempt(world, 5_000)
    world.gcs(drain=n.DrainCommand(cancel=True))
    world.heard()
    waiting = world.ask(2)
    world.give_back(held)
    assert world.heard() == [("grant", waiting)]
    world.advance(60_000)
    assert world.ends == []


def test_a_later_order_moves_the_deadline(world):
    world.ask(1)
    preempt(world, 60_000)
    preempt(world, 1_000)
    world.advance(1_000)
    assert len(world.ends) == 1
    assert len(world.items("node_change")) == 1


def test_told_to_stop_while_something_runs_the_node_says_that_it_drains(world):
    world.ask(1)
    world.core.asked_to_stop(5_000, "SIGTERM", world.now_ms)
    world.run()
    answer = drain_answers(world)[0]
    assert (answer.accepted, answer.reason) == (True, n.DRAIN_REASON_PREEMPTION)
    world.advance(5_000)
    assert [effect.cause for effect in world.ends] == [t.NODE_DEATH_CAUSE_PREEMPTED]


@pytest.mark.parametrize(("asks", "grace_ms"), [(0, 5_000), (1, 0)])
def test_told_to_stop_without_work_or_grace_it_just_ends(world, asks, grace_ms):
    for number in range(asks):
        world.ask(number)
    world.core.asked_to_stop(grace_ms, "SIGTERM", world.now_ms)
    world.run()
    assert [effect.cause for effect in world.ends] == [t.NODE_DEATH_CAUSE_EXPECTED]
    assert drain_answers(world) == []


def test_a_detached_actor_without_a_worker_is_refused(world):
    world.auto_register = False
    start = n.StartDetachedActor(actor_id=b"a" * 16, incarnation=1)
    world.gcs(start_detached_actor=start)
    preempt(world)
    assert [e.kind for e in world.events()] == [n.DETACHED_ACTOR_EVENT_KIND_REFUSED]
    world.gcs(start_detached_actor=n.StartDetachedActor(actor_id=b"b" * 16, incarnation=1))
    assert [e.kind for e in world.events()] == [n.DETACHED_ACTOR_EVENT_KIND_REFUSED]
