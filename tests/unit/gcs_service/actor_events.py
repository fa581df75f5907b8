"""Detached actors as a test drives them: made at the GCS, reported by agents."""

from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from tests.unit.gcs_service.control_rig import actor_id, detached

A, B = b"a" * 16, b"b" * 16
STARTED = ns.DETACHED_ACTOR_EVENT_KIND_STARTED
FAILED = ns.DETACHED_ACTOR_EVENT_KIND_CREATION_FAILED
ENDED = ns.DETACHED_ACTOR_EVENT_KIND_ENDED
REFUSED = ns.DETACHED_ACTOR_EVENT_KIND_REFUSED


def event(rig, node_id, session, number, kind, incarnation=1, **fields):
    rig.say(
        node_id,
        session,
        detached_actor=ns.DetachedActorEvent(
            actor_id=actor_id(number),
            incarnation=incarnation,
            kind=kind,
            worker_id=b"w" * 16,
            worker_address=f"worker:{incarnation}",
            pid=5,
            **fields,
        ),
    )


def create(rig, request):
    return rig.do(rig.core.actor_desk.create_detached, request)


def starts(rig, session):
    return [(s.actor_id, s.incarnation) for s in rig.items(session, "start_detached_actor")]


def alive_actor(rig, number=1, **fields):
    assert create(rig, detached(number, **fields)) is None
    event(rig, A, 1, number, STARTED)
    assert rig.actor(actor_id(number)).state == t.ACTOR_STATE_ALIVE
