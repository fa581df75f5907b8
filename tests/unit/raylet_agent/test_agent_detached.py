from __future__ import annotations

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_common.resources import vector
from tests.unit.raylet_agent.agent_world import GROUP, JOB, OWNER

ACTOR = OWNER + bytes(8)
STARTED = n.DETACHED_ACTOR_EVENT_KIND_STARTED
ENDED = n.DETACHED_ACTOR_EVENT_KIND_ENDED


def start(world, incarnation=1, cpus=1, **fields):
    world.gcs(
        start_detached_actor=n.StartDetachedActor(
            actor_id=ACTOR,
            incarnation=incarnation,
            job_id=JOB,
            name="store",
            bundle_index=-1,
            resources=t.ResourceSet(amounts=vector({"CPU": cpus})),
            creation_spec=b"spec",
            **fields,
        )
    )


def created(world, incarnation=1, **fields):
    worker = world.core.detached._actors[ACTOR].worker.worker_id
    outcome = a.ActorCreationOutcome(actor_id=ACTOR, incarnation=incarnation, **fields)
    world.core.worker_items(worker, [a.WorkerItem(actor_created=outcome)], world.now_ms)
    world.run()
    return worker


def test_it_is_created_on_a_local_worker_and_reported(world):
    start(world, reservation_seq=4)
    assert world.worker_commands[-1][1].create_actor.creation_spec == b"spec"
    worker = created(world, ok=True)
    event = world.events()[0]
    assert (event.kind, event.worker_id, event.incarnation) == (STARTED, worker, 1)
    assert world.core.detached.held()[0].actor_id == ACTOR
    assert world.core.snapshots.applied_reservations == 4
    assert world.free() == 3


def test_a_repeated_order_is_answered_again(world):
    start(world)
    created(world, ok=True)
    world.events()
    start(world)
    assert [event.kind for event in world.events()] == [STARTED]
    assert len(world.spawned) == 1


def test_without_room_it_is_refused(world):
    start(world, cpus=5)
    assert world.events()[0].kind == n.DETACHED_ACTOR_EVENT_KIND_REFUSED


def test_a_failing_constructor_is_reported_once(world):
    start(world)
    created(world, ok=False, error=b"pickled", message="ValueError")
    events = world.events()
    assert [event.kind for event in events] == [n.DETACHED_ACTOR_EVENT_KIND_CREATION_FAILED]
    assert events[0].error == b"pickled"
    assert world.free() == 4


def test_a_crash_may_be_restarted_and_a_kill_may_not(world):
    start(world)
    world.ended(created(world, ok=True), -9)
    crash = world.events()[-1]
    assert (crash.kind, crash.cause, crash.intended) == (
        ENDED,
        t.ACTOR_DEATH_CAUSE_WORKER_DIED,
        False,
    )
    start(world, incarnation=2)
    created(world, 2, ok=True)
    world.gcs(kill_detached_actor=n.KillDetachedActor(actor_id=ACTOR, incarnation=2))
    kill = world.events()[-1]
    assert (kill.kind, kill.incarnation, kill.intended) == (ENDED, 2, True)
    assert world.free() == 4


def test_it_outlives_the_owner_that_asked_for_it(world):
    start(world)
    created(world, ok=True)
    world.gcs(owners_died=n.OwnersDied(owner_ids=[OWNER]))
    assert world.killed == []


def test_it_dies_with_its_bundle(world):
    world.bundle(n.BUNDLE_ACTION_PREPARE_AND_COMMIT, b0={"CPU": 1})
    start(world, placement_group_id=GROUP)
    created(world, ok=True)
    world.bundle(n.BUNDLE_ACTION_RETURN, b0={"CPU": 1})
    event = world.events()[-1]
    assert (event.kind, event.cause) == (ENDED, t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED)
