"""Found by the simulator: news that comes late, twice, or from who is not responsible any more."""

from __future__ import annotations

import pytest

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core.broadcast_table import BroadcastTable
from tests.unit.gcs_service.control_rig import CLUSTER, DRIVER, Rig, actor_id, detached

A, B = b"a" * 16, b"b" * 16
STARTED = ns.DETACHED_ACTOR_EVENT_KIND_STARTED
ENDED = ns.DETACHED_ACTOR_EVENT_KIND_ENDED
REFUSED = ns.DETACHED_ACTOR_EVENT_KIND_REFUSED


@pytest.fixture
def rig():
    return Rig()


def add_job(rig):
    request = g.JobRecord(driver_id=DRIVER, driver_address="host:9", home_node_id=A)
    return rig.do(rig.core.add_job, request)


def dialled(rig):
    return [(probe.address, probe.silence_counts) for probe in rig.take(fx.ProbeDriver)]


def test_every_driver_is_dialled_now_and_then_and_ends_when_its_port_refuses(rig):
    job = add_job(rig)
    rig.advance(limits.DRIVER_PROBE_INTERVAL_MS - 1)
    assert dialled(rig) == []
    rig.advance(1)
    assert dialled(rig) == [("host:9", False)]
    rig.do(rig.core.drivers.look_later, job.job_id)
    rig.advance(limits.DRIVER_PROBE_INTERVAL_MS)
    assert dialled(rig) == [("host:9", False)]
    rig.do(rig.core.driver_gone, job.job_id)
    assert rig.core.jobs.get(job.job_id).is_dead
    rig.advance(3 * limits.DRIVER_PROBE_INTERVAL_MS)
    assert dialled(rig) == []


def test_drivers_are_dialled_after_a_restart_too(rig):
    add_job(rig)
    second = rig.restarted()
    second.advance(limits.DRIVER_PROBE_INTERVAL_MS)
    assert ("host:9", False) in dialled(second)


def register(rig, session, incarnation, version):
    total = t.ResourceSet(amounts={"CPU": 40_000})
    snapshot = ns.ResourceSnapshot(version=version, total=total, available=total)
    item = ns.RegisterNode(
        cluster_id=CLUSTER, incarnation=incarnation, address="host:1", total=total
    )
    item.snapshot.CopyFrom(snapshot)
    rig.do(rig.core.node_frame, session, [ns.AgentItem(node_id=A, register=item)])


def test_a_registration_of_an_earlier_stream_does_not_replace_a_later_one(rig):
    register(rig, 1, 1, 1)
    register(rig, 3, 3, 9)
    register(rig, 2, 2, 5)
    assert rig.closed == [1, 2]
    entry = rig.core.entry_of(A)
    assert (entry.session, entry.snapshot.version) == (3, 9)
    assert 2 not in rig.told
    rig.do(rig.core.node_session_closed, 2, [A])
    assert entry.session == 3


@pytest.mark.parametrize("kind", [REFUSED, ENDED])
def test_a_node_that_was_asked_earlier_does_not_move_a_running_detached_actor(rig, kind):
    rig.join(A, 1)
    rig.do(rig.core.actor_desk.create_detached, detached(1))
    event = ns.DetachedActorEvent(actor_id=actor_id(1), incarnation=1, kind=REFUSED)
    rig.say(A, 1, drain_answer=ns.DrainAnswer(accepted=True, reason=2))
    rig.say(A, 1, detached_actor=event)
    rig.join(B, 2)
    started = ns.DetachedActorEvent(
        actor_id=actor_id(1), incarnation=1, kind=STARTED, worker_id=b"w", worker_address="w:1"
    )
    rig.say(B, 2, detached_actor=started)
    event.kind = kind
    rig.say(A, 1, detached_actor=event)
    assert rig.actor(actor_id(1)).state == t.ACTOR_STATE_ALIVE
    assert (rig.actor(actor_id(1)).node_id, rig.actor(actor_id(1)).incarnation) == (B, 1)


def test_agents_that_came_while_the_scheduler_was_away_hear_of_it_when_it_is_back():
    table = BroadcastTable(views_to_all=False)
    scheduler = t.NodeRecord(
        node_id=A, revision=1, is_scheduler=True, state=t.NODE_STATE_ALIVE, address="s:1"
    )
    table.opened(fx.NodeSessionOpened(1, scheduler, ns.ResourceSnapshot(version=1), 0))
    table.changed(scheduler, "s:1")
    table.closed(1, A)
    other = t.NodeRecord(node_id=B, revision=2, state=t.NODE_STATE_ALIVE)
    table.opened(fx.NodeSessionOpened(2, other, ns.ResourceSnapshot(version=1), 0))
    table.changed(other, "")
    table.opened(fx.NodeSessionOpened(3, scheduler, ns.ResourceSnapshot(version=1), 0))
    told = table.changed(scheduler, "s:1")
    assert [(x.sessions, x.item.node_change.scheduler_address) for x in told] == [([2, 3], "s:1")]
