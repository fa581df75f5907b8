"""Nodes that share a stream: each joins, leaves, moves and is refused by itself."""

from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core.broadcast_table import BroadcastTable
from gcs_service.shell.session_hub import SessionHub
from tests.unit.gcs_service.control_rig import Rig

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
SHARED, OWN = 1, 2


def register(rig, node_id, session, incarnation, **fields):
    total = t.ResourceSet(amounts={"CPU": 10_000})
    request = ns.RegisterNode(
        incarnation=incarnation, address=f"host-{node_id[:1].hex()}:1", total=total, **fields
    )
    rig.say(node_id, session, register=request)


def leaves(rig):
    """Effects of this kind in order, as (session, node, incarnation)."""
    at = rig.at()
    return [
        (each.session, each.node_id, each.incarnation)
        for each in rig.core.take_effects(at)
        if isinstance(each, fx.LeaveSession)
    ]


def frame(rig, session, *items):
    """As `Rig.say`, but the effects stay to be looked at."""
    rig.core.node_frame(session, list(items), rig.at())


def item(node_id, incarnation):
    request = ns.RegisterNode(incarnation=incarnation, address="x:1")
    return ns.AgentItem(node_id=node_id, register=request)


def test_the_welcome_names_the_registration_that_it_answers():
    rig = Rig()
    register(rig, A, SHARED, 3)
    register(rig, B, SHARED, 8)
    told = [(i.node_id, i.welcome.incarnation) for i in rig.told[SHARED] if i.HasField("welcome")]
    assert told == [(A, 3), (B, 8)]
    assert rig.items(SHARED, "welcome")[0].ping_interval_ms == limits.PING_INTERVAL_MS


def test_one_node_leaves_a_stream_and_the_others_stay():
    rig = Rig()
    for node_id in (A, B):
        register(rig, node_id, SHARED, 1)
    rig.do(rig.core.node_session_closed, SHARED, [A])
    assert rig.core.membership.liveness.is_broken(A)
    assert not rig.core.membership.liveness.is_broken(B)
    assert [probe.node_id for probe in rig.take(fx.ProbeNode)] == [A]
    rig.advance(limits.RECONNECT_WINDOW_MS + 1)
    assert rig.node(A).state == t.NODE_STATE_DEAD
    assert rig.node(B).state == t.NODE_STATE_ALIVE


def test_a_node_that_moves_to_a_stream_of_its_own_leaves_the_shared_one():
    rig = Rig()
    register(rig, A, SHARED, 1)
    register(rig, B, SHARED, 1)
    frame(rig, OWN, item(A, 2))
    assert leaves(rig) == [(SHARED, A, 1)]
    # The relay tells later that A's agent is gone: it does not mean the new session.
    rig.do(rig.core.node_session_closed, SHARED, [A])
    assert not rig.core.membership.liveness.is_broken(A)


def test_a_late_registration_over_the_same_stream_changes_nothing():
    rig = Rig()
    register(rig, A, SHARED, 2)
    frame(rig, SHARED, item(A, 1))
    assert leaves(rig) == [(SHARED, A, 1)]
    assert rig.core.membership.nodes.get_alive(A).incarnation == 2
    rig.do(rig.core.node_session_closed, SHARED, [A])
    assert rig.core.membership.liveness.is_broken(A)


def test_a_refused_node_leaves_alone():
    rig = Rig()
    register(rig, A, SHARED, 1)
    frame(rig, SHARED, ns.AgentItem(node_id=B, register=ns.RegisterNode(incarnation=4)))
    assert leaves(rig) == [(SHARED, B, 4)]


def test_a_node_with_a_relay_has_longer_while_its_port_answers():
    rig = Rig()
    register(rig, A, SHARED, 1, has_relay=True)
    register(rig, B, OWN, 1)
    for session, node_id in ((SHARED, A), (OWN, B)):
        rig.do(rig.core.node_session_closed, session, [node_id])
    rig.now_ms += limits.RECONNECT_WINDOW_MS
    rig.do(rig.core.tick)
    reachable = fx.SilenceEvidence(loop_lag_ms=0, port_answers=True)
    for node_id in (A, B):
        rig.do(rig.core.silence_confirmed, node_id, reachable)
    assert rig.node(A).state == t.NODE_STATE_ALIVE
    assert rig.node(B).state == t.NODE_STATE_DEAD
    for wait_ms in (limits.RECONNECT_REACHABLE_MS, limits.VERDICT_LAG_MS_MAX):
        rig.now_ms += wait_ms
        rig.do(rig.core.tick)
    rig.do(rig.core.silence_confirmed, A, reachable)
    assert rig.node(A).state == t.NODE_STATE_DEAD


def test_a_relayed_node_whose_port_is_silent_has_no_longer_than_others():
    rig = Rig()
    register(rig, A, SHARED, 1, has_relay=True)
    rig.do(rig.core.node_session_closed, SHARED, [A])
    rig.advance(limits.RECONNECT_WINDOW_MS + 1)
    assert rig.node(A).state == t.NODE_STATE_DEAD


def test_a_fan_out_is_one_item_for_each_stream():
    table = BroadcastTable(views_to_all=False)
    snapshot = ns.ResourceSnapshot(version=1)
    for node_id, session in ((A, SHARED), (B, SHARED), (C, OWN)):
        record = t.NodeRecord(node_id=node_id, revision=1, state=t.NODE_STATE_ALIVE)
        table.opened(fx.NodeSessionOpened(session, record, snapshot, 0))
    assert [each.sessions for each in table.owners_ended((b"o",))] == [[SHARED, OWN]]
    assert table.subscriptions == 2


def test_what_a_node_missed_is_addressed_to_it_alone():
    table = BroadcastTable(views_to_all=False)
    table.changed(t.NodeRecord(node_id=C, revision=5, state=t.NODE_STATE_DEAD), "")
    snapshot = ns.ResourceSnapshot(version=1)
    for node_id, last_revision in ((A, 0), (B, 4)):
        record = t.NodeRecord(node_id=node_id, revision=6, state=t.NODE_STATE_ALIVE)
        out = table.opened(fx.NodeSessionOpened(SHARED, record, snapshot, last_revision))
    assert [(each.sessions, each.item.node_id) for each in out] == [([SHARED], B)]


async def test_a_stream_ends_with_its_last_node_only():
    async def write(_items):
        """Nobody reads."""

    hub = SessionHub()
    session = hub.open(write)
    session.nodes.update({A: 1, B: 1})
    closed = []
    session.close_when_sent = lambda: closed.append(True)
    hub.leave(session.number, A, 1)
    assert (list(session.nodes), closed) == ([B], [])
    hub.leave(session.number, B, 1)
    assert closed == [True]


async def test_a_node_that_registered_anew_over_the_same_stream_stays_on_it():
    async def write(_items):
        """Nobody reads."""

    hub = SessionHub()
    session = hub.open(write)
    session.nodes[A] = 3
    hub.leave(session.number, A, 2)
    assert session.nodes == {A: 3}
