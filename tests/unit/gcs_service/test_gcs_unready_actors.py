"""Detached actors whose constructor waits for arguments; records of somebody else's actors."""

from __future__ import annotations

import pytest

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service.core import effects as fx
from tests.unit.gcs_service.control_rig import DRIVER, Rig, actor_id, detached, record

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
OTHER = b"o" * 16


@pytest.fixture
def rig():
    rig = Rig()
    rig.join(A, 1)
    return rig


def create(rig, **fields):
    return rig.do(rig.core.actor_desk.create_detached, detached(1, "n", **fields))


def starts(rig, session):
    return [s.actor_id for s in rig.items(session, "start_detached_actor")]


def test_it_has_its_name_and_starts_when_the_arguments_come(rig):
    assert create(rig, arguments_pending=True) is None
    assert rig.core.actors.by_name("", "n").state == t.ACTOR_STATE_DEPENDENCIES_UNREADY
    assert starts(rig, 1) == []
    assert create(rig, arguments_pending=True) is None
    rig.advance(60_000)
    assert starts(rig, 1) == []
    assert create(rig) is None
    assert starts(rig, 1) == [actor_id(1)]
    create(rig)
    assert starts(rig, 1) == [actor_id(1)]


def test_its_creators_death_is_its_own_while_it_is_unready(rig):
    create(rig, arguments_pending=True)
    rig.say(A, 1, owner_ended=ns.OwnerEnded(owner_id=DRIVER, message="killed"))
    dead = rig.actor(actor_id(1))
    assert (dead.state, dead.death.cause) == (
        t.ACTOR_STATE_DEAD,
        t.ACTOR_DEATH_CAUSE_OWNER_DIED,
    )
    assert "before the constructor's arguments were there: killed" in dead.death.message
    assert rig.core.actors.by_name("", "n") is None
    assert isinstance(create(rig), fx.Refusal)


def test_its_creators_death_is_nothing_to_it_afterwards(rig):
    create(rig, arguments_pending=True)
    create(rig)
    rig.say(A, 1, owner_ended=ns.OwnerEnded(owner_id=DRIVER))
    assert rig.actor(actor_id(1)).state == t.ACTOR_STATE_PENDING_CREATION


def test_an_argument_that_failed_is_its_death(rig):
    create(rig, arguments_pending=True)
    create(rig, argument_error=b"pickled")
    death = rig.actor(actor_id(1)).death
    assert (death.cause, death.creation_error) == (
        t.ACTOR_DEATH_CAUSE_CREATION_FAILED,
        b"pickled",
    )


def test_the_node_of_a_worker_that_creates_it_takes_it_along(rig):
    rig.join(B, 2)
    request = detached(1, "n", arguments_pending=True)
    request.actor.owner_node_id = B
    rig.do(rig.core.actor_desk.create_detached, request)
    rig.do(rig.core.node_session_closed, 2, [B])
    rig.do(rig.core.node_port_refused, B)
    assert rig.actor(actor_id(1)).death.cause == t.ACTOR_DEATH_CAUSE_OWNER_DIED


def test_it_stays_unready_over_a_restart_of_the_service(rig):
    create(rig, arguments_pending=True)
    second = rig.restarted()
    second.join(A, 1)
    second.advance(60_000)
    assert starts(second, 1) == []
    create(second)
    assert starts(second, 1) == [actor_id(1)]


def test_it_can_be_killed_before_it_is_ready(rig):
    create(rig, arguments_pending=True)
    rig.core.detached.kill(actor_id(1), no_restart=True, graceful=False, at=rig.at())
    rig.drain()
    assert rig.actor(actor_id(1)).death.cause == t.ACTOR_DEATH_CAUSE_KILLED
    assert create(rig) is None
    assert starts(rig, 1) == []


def test_spread_actors_take_turns(rig):
    for session, node_id in ((2, B), (3, C)):
        rig.join(node_id, session)
    for number in range(1, 7):
        request = detached(number, cpus=0)
        request.scheduling.spread = True
        rig.do(rig.core.actor_desk.create_detached, request)
    assert [len(starts(rig, session)) for session in (1, 2, 3)] == [2, 2, 2]


# ---- whose record it is


@pytest.mark.parametrize(
    ("reporter", "of"), [(OTHER, DRIVER), (DRIVER, OTHER), (OTHER, OTHER)], ids=str
)
def test_records_of_somebody_elses_actor_change_nothing(rig, reporter, of):
    desk = rig.core.actor_desk
    rig.do(desk.register_named, record(1, "n"))
    dead = record(1, "n", version=2, state=t.ACTOR_STATE_DEAD, owner_id=of)
    own = t.ActorRecord(actor_id=reporter + bytes(8), owner_id=reporter, version=1)
    refusal = rig.do(desk.report, reporter, [dead, own])
    assert refusal.code == fx.BAD_REQUEST
    assert actor_id(1).hex() in refusal.message
    assert rig.core.actors.by_name("", "n") is not None
    assert rig.actor(own.actor_id) is not None, "the reporter's own record was taken"


def test_the_creator_of_a_detached_actor_does_not_drive_it(rig):
    create(rig)
    dead = record(1, "n", version=99, state=t.ACTOR_STATE_DEAD)
    assert isinstance(rig.do(rig.core.actor_desk.report, DRIVER, [dead]), fx.Refusal)
    assert rig.actor(actor_id(1)).state == t.ACTOR_STATE_PENDING_CREATION


def test_a_name_is_taken_for_an_actor_of_ones_own_only(rig):
    refusal = rig.do(rig.core.actor_desk.register_named, record(1, "n", owner_id=OTHER))
    assert isinstance(refusal, fx.Refusal)


def test_a_worker_that_owns_actors_dies_with_its_node_wherever_they_are(rig):
    """Its actors may have no place yet, so no other node's agent could say that it is gone."""
    rig.join(B, 2)
    desk = rig.core.actor_desk
    rig.do(desk.register_named, record(1, "n", owner_node_id=B))
    rig.do(desk.report, DRIVER, [record(2, owner_node_id=B, node_id=A)])
    dead = record(3, owner_node_id=B, state=t.ACTOR_STATE_DEAD)
    rig.do(desk.report, DRIVER, [record(3, version=0, owner_node_id=B), dead])
    rig.say(B, 2, goodbye=ns.Goodbye())
    causes = [rig.actor(actor_id(number)).death.cause for number in (1, 2, 3)]
    assert causes == [t.ACTOR_DEATH_CAUSE_OWNER_DIED] * 2 + [t.ACTOR_DEATH_CAUSE_UNSPECIFIED]
    assert rig.core.actors.owners_on(B) == []
    assert rig.core.owners.is_dead(DRIVER)


def test_an_owner_without_living_actors_is_not_looked_up_by_its_node(rig):
    desk = rig.core.actor_desk
    rig.do(desk.report, DRIVER, [record(n, owner_node_id=A) for n in (1, 2)])
    rig.do(desk.report, DRIVER, [record(1, version=2, state=t.ACTOR_STATE_DEAD, owner_node_id=A)])
    assert rig.core.actors.owners_on(A) == [DRIVER]
    rig.do(desk.report, DRIVER, [record(2, version=2, state=t.ACTOR_STATE_DEAD, owner_node_id=A)])
    assert rig.core.actors.owners_on(A) == []
