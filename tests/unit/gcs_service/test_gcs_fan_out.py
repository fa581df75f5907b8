"""Node changes, views and watches: who is told what, and how often."""

from __future__ import annotations

import asyncio

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core.broadcast_table import BroadcastTable
from gcs_service.core.effects import NodeSessionOpened
from gcs_service.core.watchers import Watchers
from gcs_service.shell.services.node_service import merged
from gcs_service.shell.session_hub import SessionHub

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def node(node_id, revision, *, scheduler=False, state=t.NODE_STATE_ALIVE):
    return t.NodeRecord(node_id=node_id, revision=revision, is_scheduler=scheduler, state=state)


def opened(table, session, record, last_revision=0):
    snapshot = ns.ResourceSnapshot(version=1)
    return table.opened(NodeSessionOpened(session, record, snapshot, last_revision))


def kinds(fan_outs):
    return [(list(f.sessions), f.item.WhichOneof("item")) for f in fan_outs]


def test_views_go_to_schedulers_only_and_never_back_to_their_origin():
    table = BroadcastTable(views_to_all=False)
    opened(table, 1, node(A, 1, scheduler=True))
    assert kinds(opened(table, 2, node(B, 2))) == [([1], "view")]
    assert kinds(table.snapshot(B, ns.ResourceSnapshot(version=2))) == [([1], "view")]
    assert table.snapshot(A, ns.ResourceSnapshot(version=2)) == []


def test_a_scheduler_that_joins_late_gets_all_views():
    table = BroadcastTable(views_to_all=False)
    opened(table, 1, node(A, 1))
    opened(table, 2, node(B, 2))
    assert kinds(opened(table, 3, node(C, 3, scheduler=True))) == [([3], "view"), ([3], "view")]


def test_with_sync_scope_all_everybody_gets_views():
    table = BroadcastTable(views_to_all=True)
    opened(table, 1, node(A, 1))
    opened(table, 2, node(B, 2))
    opened(table, 3, node(C, 3))
    assert kinds(table.snapshot(A, ns.ResourceSnapshot(version=2))) == [([2, 3], "view")]


def test_an_older_snapshot_tells_nobody_anything():
    table = BroadcastTable(views_to_all=True)
    opened(table, 1, node(A, 1))
    opened(table, 2, node(B, 2))
    table.snapshot(B, ns.ResourceSnapshot(version=5))
    assert table.snapshot(B, ns.ResourceSnapshot(version=5)) == []


def test_a_death_reaches_every_agent_once_and_ends_the_view():
    table = BroadcastTable(views_to_all=False)
    opened(table, 1, node(A, 1, scheduler=True))
    opened(table, 2, node(B, 2))
    table.closed(2, B)
    told = kinds(table.changed(node(B, 3, state=t.NODE_STATE_DEAD), ""))
    assert told == [([1], "node_change"), ([1], "view")]
    assert table.snapshot(B, ns.ResourceSnapshot(version=9)) == []


def test_a_session_that_resumes_hears_what_it_missed():
    table = BroadcastTable(views_to_all=False)
    table.changed(node(B, 5), "")
    table.changed(node(C, 8, state=t.NODE_STATE_DEAD), "")
    told = opened(table, 1, node(A, 9), last_revision=5)
    assert [f.item.node_change.node.node_id for f in told] == [C]


def test_a_watch_starts_with_a_snapshot_and_resumes_from_a_revision():
    table = BroadcastTable(views_to_all=False)
    table.changed(node(A, 1), "")
    table.changed(node(B, 2), "")
    first = table.watch(7, 0)[0].item
    assert (first.snapshot, len(first.nodes), first.revision) == (True, 2, 2)
    resumed = table.watch(8, 1)[0].item
    assert (resumed.snapshot, [n.node_id for n in resumed.nodes]) == (False, [B])


def test_a_revision_that_is_too_old_gets_a_snapshot(monkeypatch):
    monkeypatch.setattr(limits, "NODE_REVISIONS_KEPT", 2)
    table = BroadcastTable(views_to_all=False)
    for revision in range(1, 6):
        table.changed(node(bytes([revision]) * 16, revision), "")
    assert table.watch(7, 1)[0].item.snapshot


def test_after_a_restart_a_watch_gets_a_snapshot_of_the_loaded_nodes():
    table = BroadcastTable(views_to_all=False)
    table.load([node(A, 4)])
    answer = table.watch(7, 3)[0].item
    assert (answer.snapshot, len(answer.nodes)) == (True, 1)


def test_a_watcher_that_left_is_told_nothing():
    table = BroadcastTable(views_to_all=False)
    table.watch(7, 0)
    assert table.changed(node(A, 1), "")[0].sessions == [7]
    table.unwatch(7)
    assert table.changed(node(A, 2), "") == []


def test_watches_may_precede_their_topic_and_end_with_their_session():
    watchers = Watchers()
    watchers.add(1, b"g")
    watchers.add(2, b"g")
    watchers.add(1, b"g")
    assert watchers.of(b"g") == [1, 2]
    watchers.remove(2, b"g")
    watchers.remove(2, b"g")
    assert watchers.of(b"g") == [1]
    watchers.close(1)
    assert watchers.of(b"g") == []
    assert len(watchers) == 0


async def test_the_backlog_of_a_slow_watcher_is_bounded_and_its_revisions_never_fall():
    gate, messages = asyncio.Event(), []

    async def write(answers):
        await gate.wait()
        messages.extend(merged(answers))

    hub = SessionHub()
    session = hub.open(write, newest_last=True)
    running = asyncio.ensure_future(session.run())
    table = BroadcastTable(views_to_all=False)
    for fan_out in table.watch(session.number, 0):
        hub.tell_many(fan_out.sessions, fan_out.item, fan_out.key)
    await asyncio.sleep(0)
    for revision in range(1, 1_001):
        changed = node((A, B, C)[revision % 3], revision)
        for fan_out in table.changed(changed, ""):
            hub.tell_many(fan_out.sessions, fan_out.item, fan_out.key)
    assert len(session.outbox) <= 4
    gate.set()
    await session.outbox.drained()
    session.close_when_sent()
    await running
    assert messages[0].snapshot
    revisions = [record.revision for message in messages[1:] for record in message.nodes]
    assert revisions == [998, 999, 1_000]
    assert messages[-1].revision == 1_000


def test_a_watcher_that_was_away_too_long_gets_a_snapshot(monkeypatch):
    monkeypatch.setattr(limits, "NODE_REVISIONS_KEPT", 10)
    table = BroadcastTable(views_to_all=False)
    for revision in range(1, 31):
        table.changed(node((A, B)[revision % 2], revision), "")
    (fresh,) = table.watch(1, 25)
    assert (fresh.item.snapshot, [n.revision for n in fresh.item.nodes]) == (
        False,
        list(range(26, 31)),
    )
    (late,) = table.watch(2, 15)
    assert (late.item.snapshot, [n.revision for n in late.item.nodes]) == (True, [29, 30])
    (future,) = table.watch(3, 99)
    assert future.item.snapshot


def test_a_join_is_told_to_no_agent_unless_it_changes_who_schedules():
    table = BroadcastTable(views_to_all=False)
    opened(table, 1, node(A, 1))
    assert table.changed(node(A, 1), "") == []
    opened(table, 2, node(B, 2, scheduler=True))
    assert kinds(table.changed(node(B, 2, scheduler=True), "b:1")) == [([1, 2], "node_change")]
    opened(table, 3, node(C, 3))
    assert table.changed(node(C, 3), "b:1") == []


def test_a_drain_and_its_end_are_told():
    table = BroadcastTable(views_to_all=False)
    opened(table, 1, node(A, 1))
    table.changed(node(A, 1), "")
    draining = table.changed(node(A, 2, state=t.NODE_STATE_DRAINING), "")
    assert kinds(draining) == [([1], "node_change")]
    assert kinds(table.changed(node(A, 3), "")) == [([1], "node_change")]


def test_watches_are_bounded_and_end_with_their_topic(monkeypatch):
    monkeypatch.setattr(limits, "WATCHES_MAX", 3)
    watchers = Watchers()
    assert [watchers.add(1, topic) for topic in (A, B, C)] == [True] * 3
    assert watchers.add(1, A)
    assert not watchers.add(2, A)
    watchers.end(A)
    assert (len(watchers), watchers.of(A)) == (2, [])
    assert watchers.add(2, B)
    watchers.close(1)
    assert (len(watchers), watchers.of(B)) == (1, [2])
    watchers.remove(2, B)
    watchers.remove(2, B)
    assert len(watchers) == 0


def test_agents_hear_when_nobody_schedules_any_more():
    table = BroadcastTable(views_to_all=False)
    opened(table, 1, node(A, 1))
    opened(table, 2, node(B, 2, scheduler=True))
    table.changed(node(B, 2, scheduler=True), "b:1")

    def lost(record, scheduler_address):
        (out,) = [
            one
            for one in table.changed(record, scheduler_address)
            if one.item.HasField("node_change")
        ]
        return out.item.node_change.scheduler_lost

    assert not lost(node(C, 3, state=t.NODE_STATE_DEAD), "")
    assert not lost(node(B, 4, scheduler=True, state=t.NODE_STATE_DEAD), "c:1")
    assert lost(node(B, 5, scheduler=True, state=t.NODE_STATE_DEAD), "")
