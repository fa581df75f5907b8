"""Names, owners' reports and detached actors."""

from __future__ import annotations

import pytest

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core import tables
from tests.unit.gcs_service.actor_events import (
    ENDED,
    FAILED,
    REFUSED,
    STARTED,
    A,
    B,
    alive_actor,
    create,
    event,
    starts,
)
from tests.unit.gcs_service.control_rig import (
    DRIVER,
    Rig,
    actor_id,
    detached,
    record,
)


@pytest.fixture
def rig():
    return Rig()


# ---- names


def test_a_name_has_one_holder_and_the_second_learns_who(rig):
    desk = rig.core.actor_desk
    assert rig.do(desk.register_named, record(1, "n")) is None
    assert rig.do(desk.register_named, record(2, "n")).actor_id == actor_id(1)
    assert rig.do(desk.register_named, record(1, "n")) is None
    assert rig.do(desk.register_named, record(2, "n", namespace="other")) is None


def test_a_name_is_free_in_the_step_that_reports_the_death(rig):
    desk = rig.core.actor_desk
    rig.do(desk.register_named, record(1, "n"))
    rig.do(desk.report, DRIVER, [record(1, "n", version=2, state=t.ACTOR_STATE_DEAD)])
    assert rig.core.actors.by_name("", "n") is None
    assert rig.do(desk.register_named, record(2, "n")) is None


def test_a_late_report_of_an_earlier_holder_does_not_free_the_name_of_a_later_one(rig):
    desk = rig.core.actor_desk
    rig.do(desk.register_named, record(1, "n"))
    rig.do(desk.report, DRIVER, [record(1, "n", version=2, state=t.ACTOR_STATE_DEAD)])
    rig.do(desk.register_named, record(2, "n"))
    rig.do(desk.report, DRIVER, [record(1, "n", version=3, state=t.ACTOR_STATE_DEAD)])
    assert rig.core.actors.by_name("", "n").actor_id == actor_id(2)


def test_an_older_version_changes_nothing(rig):
    desk = rig.core.actor_desk
    rig.do(desk.report, DRIVER, [record(1, version=5, state=t.ACTOR_STATE_ALIVE)])
    rig.do(desk.report, DRIVER, [record(1, version=4)])
    assert rig.actor(actor_id(1)).state == t.ACTOR_STATE_ALIVE


def test_a_dead_actor_stays_dead_whatever_is_reported(rig):
    desk = rig.core.actor_desk
    rig.do(desk.report, DRIVER, [record(1, version=2, state=t.ACTOR_STATE_DEAD)])
    rig.do(desk.report, DRIVER, [record(1, version=9, state=t.ACTOR_STATE_ALIVE)])
    assert rig.actor(actor_id(1)).state == t.ACTOR_STATE_DEAD


def test_dead_actors_are_kept_up_to_a_cap(rig, monkeypatch):
    monkeypatch.setattr(limits, "ACTORS_DEAD_MAX", 3)
    dead = [record(number, state=t.ACTOR_STATE_DEAD) for number in range(10)]
    rig.do(rig.core.actor_desk.report, DRIVER, dead)
    assert len(rig.core.actors) == 3
    assert len(rig.rows[tables.ACTOR]) == 3
    assert rig.core.actors.by_state[t.ACTOR_STATE_DEAD] == 3


def test_names_survive_a_restart(rig):
    rig.do(rig.core.actor_desk.register_named, record(1, "n"))
    second = rig.restarted()
    assert second.core.actors.by_name("", "n").actor_id == actor_id(1)


def test_lists_are_newest_first_filtered_and_say_how_many_there_are(rig):
    records = [record(n, job_id=b"j%d" % (n % 2)) for n in range(6)]
    rig.do(rig.core.actor_desk.report, DRIVER, records)
    rows, total = rig.do(rig.core.actor_desk.rows, 2, b"j1", 0)
    assert [row.actor_id for row in rows] == [actor_id(5), actor_id(3)]
    assert total == 6


# ---- detached actors


def test_a_detached_actor_is_placed_started_and_watched(rig):
    rig.join(A, 1)
    rig.do(rig.core.actor_desk.watch, 7, [actor_id(1)])
    alive_actor(rig, name="n")
    assert starts(rig, 1) == [(actor_id(1), 1)]
    states = [told.state for told in rig.told[7]]
    assert states[-1] == t.ACTOR_STATE_ALIVE
    found = rig.core.actors.by_name("", "n")
    assert (found.node_id, found.worker_address) == (A, "worker:1")


def test_its_target_is_durable_before_the_agent_hears_of_it(rig):
    rig.join(A, 1)
    create(rig, detached(1))
    stored = t.ActorRecord.FromString(rig.rows[tables.ACTOR][actor_id(1)])
    assert stored.node_id == A
    assert actor_id(1) in rig.rows[tables.ACTOR_SPEC]


def test_creation_is_idempotent_by_id_and_refused_by_name(rig):
    rig.join(A, 1)
    create(rig, detached(1, "n"))
    assert create(rig, detached(1, "n")) is None
    assert create(rig, detached(2, "n")).actor_id == actor_id(1)
    assert starts(rig, 1) == [(actor_id(1), 1)]


def test_it_waits_for_a_node_with_room(rig):
    rig.join(A, 1, cpus=1)
    create(rig, detached(1, cpus=4))
    assert starts(rig, 1) == []
    rig.join(B, 2, cpus=4)
    assert starts(rig, 2) == [(actor_id(1), 1)]


def test_two_starts_are_not_sent_to_the_same_room(rig):
    rig.join(A, 1, cpus=1)
    rig.join(B, 2, cpus=1)
    create(rig, detached(1))
    create(rig, detached(2))
    assert len(starts(rig, 1)) == len(starts(rig, 2)) == 1


def test_a_refused_start_goes_elsewhere_or_waits(rig):
    rig.join(A, 1)
    create(rig, detached(1))
    event(rig, A, 1, 1, REFUSED)
    assert rig.actor(actor_id(1)).state == t.ACTOR_STATE_PENDING_CREATION
    rig.advance(limits.ACTOR_RETRY_FIRST_MS)
    assert starts(rig, 1) == [(actor_id(1), 1)] * 2


def test_a_constructor_that_raised_is_final_and_frees_the_name(rig):
    rig.join(A, 1)
    create(rig, detached(1, "n", max_restarts=5))
    event(rig, A, 1, 1, FAILED, message="ValueError", error=b"pickled")
    death = rig.actor(actor_id(1)).death
    assert (death.cause, death.creation_error) == (t.ACTOR_DEATH_CAUSE_CREATION_FAILED, b"pickled")
    assert rig.core.actors.by_name("", "n") is None
    assert rig.rows[tables.ACTOR_SPEC] == {}


def test_it_restarts_as_often_as_allowed(rig):
    rig.join(A, 1)
    alive_actor(rig, max_restarts=1)
    event(rig, A, 1, 1, ENDED, message="exit status 1")
    assert rig.actor(actor_id(1)).state == t.ACTOR_STATE_RESTARTING
    assert starts(rig, 1)[-1] == (actor_id(1), 2)
    event(rig, A, 1, 1, STARTED, incarnation=2)
    assert rig.actor(actor_id(1)).restarts == 1
    event(rig, A, 1, 1, ENDED, incarnation=2)
    assert rig.actor(actor_id(1)).death.cause == t.ACTOR_DEATH_CAUSE_WORKER_DIED


def test_an_intended_end_is_not_restarted(rig):
    rig.join(A, 1)
    alive_actor(rig, max_restarts=-1)
    event(rig, A, 1, 1, ENDED, intended=True)
    assert rig.actor(actor_id(1)).death.cause == t.ACTOR_DEATH_CAUSE_EXITED


def test_an_event_of_an_earlier_incarnation_is_void(rig):
    rig.join(A, 1)
    alive_actor(rig, max_restarts=-1)
    event(rig, A, 1, 1, ENDED)
    event(rig, A, 1, 1, STARTED, incarnation=2)
    event(rig, A, 1, 1, ENDED, incarnation=1)
    assert rig.actor(actor_id(1)).state == t.ACTOR_STATE_ALIVE


def test_when_its_node_dies_it_starts_on_another(rig):
    rig.join(A, 1)
    alive_actor(rig, max_restarts=1)
    rig.join(B, 2)
    rig.say(A, 1, goodbye=ns.Goodbye())
    assert starts(rig, 2) == [(actor_id(1), 2)]
    assert rig.actor(actor_id(1)).node_id == B


def test_a_preempted_node_does_not_use_up_restarts(rig):
    rig.join(A, 1)
    alive_actor(rig, max_restarts=1)
    rig.join(B, 2)
    rig.do(rig.core.drain_node, A, ns.DRAIN_REASON_PREEMPTION, "", 0)
    rig.say(A, 1, goodbye=ns.Goodbye())
    event(rig, B, 2, 1, STARTED, incarnation=2)
    event(rig, B, 2, 1, ENDED, incarnation=2)
    assert rig.actor(actor_id(1)).state == t.ACTOR_STATE_RESTARTING


def test_a_node_that_dies_before_the_start_uses_up_no_restart(rig):
    rig.join(A, 1)
    create(rig, detached(1))
    rig.join(B, 2)
    rig.say(A, 1, goodbye=ns.Goodbye())
    assert starts(rig, 2) == [(actor_id(1), 1)]


def test_kill_stops_the_worker_and_frees_the_name_at_once(rig):
    rig.join(A, 1)
    alive_actor(rig, name="n", max_restarts=-1)
    assert rig.core.detached.kill(actor_id(1), no_restart=True, graceful=False, at=rig.at())
    rig.drain()
    assert rig.core.actors.by_name("", "n") is None
    assert [kill.actor_id for kill in rig.items(1, "kill_detached_actor")] == [actor_id(1)]
    assert not rig.core.detached.kill(actor_id(1), no_restart=True, graceful=False, at=rig.at())


def test_kill_before_the_start_was_answered_takes_the_start_back(rig):
    rig.join(A, 1)
    create(rig, detached(1))
    rig.core.detached.kill(actor_id(1), no_restart=True, graceful=False, at=rig.at())
    rig.drain()
    assert len(rig.items(1, "kill_detached_actor")) == 1
    event(rig, A, 1, 1, STARTED)
    assert len(rig.items(1, "kill_detached_actor")) == 2


def test_it_outlives_the_driver_that_made_it(rig):
    rig.join(A, 1)
    alive_actor(rig, name="n")
    rig.say(A, 1, owner_ended=ns.OwnerEnded(owner_id=DRIVER, is_driver=True))
    assert rig.core.actors.by_name("", "n").state == t.ACTOR_STATE_ALIVE


def test_hard_affinity_to_a_node_that_is_gone_can_never_run(rig):
    rig.join(A, 1)
    request = detached(1)
    request.scheduling.affinity_node_id = B
    create(rig, request)
    assert rig.actor(actor_id(1)).death.cause == t.ACTOR_DEATH_CAUSE_UNSCHEDULABLE


def test_a_selector_and_its_fallback_choose_the_node(rig):
    rig.join(A, 1, labels={"zone": "x"})
    rig.join(B, 2, labels={"zone": "y"})
    request = detached(1)
    request.scheduling.selector.terms["zone"] = "z"
    request.scheduling.fallback.add().terms["zone"] = "y"
    create(rig, request)
    assert starts(rig, 2) == [(actor_id(1), 1)]


def test_what_waits_is_demand_and_says_when_no_node_could_ever_hold_it(rig):
    rig.join(A, 1, cpus=4)
    create(rig, detached(1, cpus=9))
    create(rig, detached(2, cpus=4))
    create(rig, detached(3, cpus=4))
    demand = rig.core.take_demand(rig.at()).detached
    rows = [(e.resources.amounts["CPU"], e.infeasible) for e in demand]
    assert rows == [(90_000, True), (40_000, False)]
