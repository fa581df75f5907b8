"""Detached actors over a restart of the service."""

from __future__ import annotations

import pytest

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from tests.unit.gcs_service.actor_events import A, B, alive_actor, create, starts
from tests.unit.gcs_service.control_rig import CLUSTER, Rig, actor_id, detached


@pytest.fixture
def rig():
    return Rig()


def held(number, incarnation=1):
    return ns.DetachedActorHeld(
        actor_id=actor_id(number),
        incarnation=incarnation,
        worker_address=f"worker:{incarnation}",
        worker_id=b"w" * 16,
        pid=5,
    )


def test_after_a_restart_a_running_actor_is_recognised(rig):
    rig.join(A, 1)
    alive_actor(rig, name="n")
    second = rig.restarted()
    second.join(A, 1, cluster=CLUSTER, detached=[held(1)])
    assert second.core.actors.by_name("", "n").state == t.ACTOR_STATE_ALIVE
    assert starts(second, 1) == []
    assert second.items(1, "kill_detached_actor") == []


def test_after_a_restart_a_missing_actor_is_started_again(rig):
    rig.join(A, 1)
    alive_actor(rig, max_restarts=1)
    second = rig.restarted()
    second.join(A, 1, cluster=CLUSTER)
    assert starts(second, 1) == [(actor_id(1), 2)]


def test_an_actor_that_started_while_the_service_was_away_is_alive(rig):
    rig.join(A, 1)
    create(rig, detached(1))
    second = rig.restarted()
    second.join(A, 1, cluster=CLUSTER, detached=[held(1)])
    assert second.actor(actor_id(1)).state == t.ACTOR_STATE_ALIVE


def test_a_start_that_may_be_lost_is_sent_again_to_the_same_node(rig):
    rig.join(A, 1)
    create(rig, detached(1))
    second = rig.restarted()
    second.join(A, 1, cluster=CLUSTER)
    assert starts(second, 1) == [(actor_id(1), 1)]


def test_an_actor_on_a_node_that_does_not_come_back_is_started_elsewhere(rig):
    rig.join(A, 1)
    alive_actor(rig, max_restarts=1)
    second = rig.restarted()
    second.join(B, 2)
    second.advance(limits.RECONNECT_WINDOW_MS)
    assert starts(second, 2) == [(actor_id(1), 2)]


def test_an_actor_that_waited_still_waits_after_a_restart(rig):
    create(rig, detached(1))
    second = rig.restarted()
    second.join(A, 1)
    assert starts(second, 1) == [(actor_id(1), 1)]


def test_an_actor_nobody_knows_is_killed_where_it_is_held(rig):
    rig.join(A, 1, detached=[held(77)])
    assert [kill.actor_id for kill in rig.items(1, "kill_detached_actor")] == [actor_id(77)]
