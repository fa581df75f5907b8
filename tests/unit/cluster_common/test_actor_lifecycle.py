import pytest

from cluster_api.v1 import types_pb2 as t
from cluster_common.actor_lifecycle import (
    RESTARTS_UNLIMITED,
    ActorLifecycle,
    CancelLease,
    Placement,
    Publish,
    PushCreation,
    RequestLease,
    StopWorker,
)

ID = b"actor"
PLACE = Placement(b"node", b"worker", "h:1", 42)
OTHER = Placement(b"node2", b"worker2", "h:2", 43)
DIED = t.ACTOR_DEATH_CAUSE_WORKER_DIED
PREEMPTED = t.ACTOR_DEATH_CAUSE_PREEMPTED


def alive(max_restarts=0):
    actor = ActorLifecycle(ID, max_restarts)
    actor.dependencies_ready()
    actor.lease_granted(1, PLACE)
    actor.creation_succeeded(1)
    return actor


def test_a_start_asks_for_a_worker_then_creates_then_lives():
    actor = ActorLifecycle(ID, 0)
    assert actor.dependencies_ready() == [RequestLease(ID, 1), Publish(ID)]
    assert actor.lease_granted(1, PLACE) == [PushCreation(ID, 1, PLACE)]
    assert actor.creation_succeeded(1) == [Publish(ID)]
    assert actor.state == t.ACTOR_STATE_ALIVE


def test_repeated_events_change_nothing():
    actor = alive()
    version = actor.version
    assert actor.dependencies_ready() == []
    assert actor.lease_granted(1, PLACE) == []
    assert actor.creation_succeeded(1) == []
    assert actor.version == version


def test_a_worker_loss_restarts_while_restarts_are_left():
    actor = alive(max_restarts=1)
    assert actor.worker_ended(1, DIED, "gone", 5) == [RequestLease(ID, 2), Publish(ID)]
    assert actor.state == t.ACTOR_STATE_RESTARTING
    actor.lease_granted(2, OTHER)
    actor.creation_succeeded(2)
    assert actor.worker_ended(2, DIED, "gone again", 6) == [Publish(ID)]
    assert actor.is_dead
    assert actor.death.cause == DIED
    assert actor.death.node_id == b"node2"


def test_an_event_of_an_earlier_incarnation_is_void():
    actor = alive(max_restarts=3)
    actor.worker_ended(1, DIED, "gone", 5)
    assert actor.worker_ended(1, DIED, "heard twice", 6) == []
    assert actor.creation_failed(1, "late", b"", 6) == []
    assert actor.incarnation == 2


def test_no_worker_can_have_ended_before_the_first_lease():
    actor = ActorLifecycle(ID, RESTARTS_UNLIMITED)
    assert actor.worker_ended(0, DIED, "of nobody", 5) == []
    assert (actor.state, actor.incarnation, actor.restarts, actor.version) == (
        t.ACTOR_STATE_DEPENDENCIES_UNREADY,
        0,
        0,
        1,
    )
    assert actor.dependencies_ready() == [RequestLease(ID, 1), Publish(ID)]


def test_preemption_does_not_use_up_restarts():
    actor = alive(max_restarts=1)
    for incarnation in (1, 2, 3):
        assert actor.worker_ended(incarnation, PREEMPTED, "preempted", 1)[0] == RequestLease(
            ID, incarnation + 1
        )
        actor.lease_granted(incarnation + 1, PLACE)
        actor.creation_succeeded(incarnation + 1)
    actor.worker_ended(4, DIED, "gone", 2)
    assert actor.state == t.ACTOR_STATE_RESTARTING


def test_unlimited_restarts_never_end():
    actor = alive(RESTARTS_UNLIMITED)
    for incarnation in range(1, 20):
        actor.worker_ended(incarnation, DIED, "gone", 1)
        actor.lease_granted(incarnation + 1, PLACE)
        actor.creation_succeeded(incarnation + 1)
    assert actor.state == t.ACTOR_STATE_ALIVE


@pytest.mark.parametrize(
    "cause", [t.ACTOR_DEATH_CAUSE_EXITED, t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED]
)
def test_wanted_ends_are_final(cause):
    actor = alive(RESTARTS_UNLIMITED)
    assert actor.worker_ended(1, cause, "meant", 1) == [Publish(ID)]
    assert actor.is_dead


def test_a_failed_constructor_is_final_and_its_worker_goes():
    actor = ActorLifecycle(ID, 5)
    actor.dependencies_ready()
    actor.lease_granted(1, PLACE)
    effects = actor.creation_failed(1, "raised", b"pickled", 9)
    assert [type(effect) for effect in effects] == [StopWorker, Publish]
    assert actor.death.creation_error == b"pickled"
    assert actor.death.never_started


def test_an_end_before_the_grant_cancels_the_lease_and_returns_a_late_grant():
    actor = ActorLifecycle(ID, 0)
    actor.dependencies_ready()
    killed = t.ACTOR_DEATH_CAUSE_KILLED
    assert actor.end(killed, "killed", 1) == [CancelLease(ID, 1), Publish(ID)]
    assert actor.end(killed, "twice", 2) == []
    (stop,) = actor.lease_granted(1, PLACE)
    assert isinstance(stop, StopWorker)
    assert stop.placement == PLACE


def test_kill_with_restart_stops_the_worker_and_counts():
    actor = alive(max_restarts=1)
    effects = actor.restart_requested("kill", 1)
    assert [type(effect) for effect in effects] == [StopWorker, RequestLease, Publish]
    assert actor.restarts == 1
