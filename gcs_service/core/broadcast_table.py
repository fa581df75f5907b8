"""Who is told of node changes, and what: agents, scheduler agents, watchers with revisions.

Cost: one item built per change, whatever the number of streams; views go to scheduler agents only
(or to all with sync scope `all`), never back to their origin. Agents hear of nodes that go, not of
nodes that come: who schedules learns of those by their views, and N joins told to N agents would be
50 million items in a cluster of 10,000.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

import msgspec

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core.effects import NodeSessionOpened
from gcs_service.core.open_sessions import OpenSessions


class FanOut(msgspec.Struct, frozen=True, gc=False):
    """One item for many sessions; a later one with the same key may replace it unsent."""

    sessions: list[int]
    item: object
    key: Hashable


class _Member:
    __slots__ = ("_view", "record", "snapshot")

    def __init__(self, record: t.NodeRecord) -> None:
        self.record = record
        self.snapshot: ns.ResourceSnapshot | None = None
        self._view: ns.GcsItem | None = None

    def put(self, snapshot: ns.ResourceSnapshot) -> None:
        self.snapshot, self._view = snapshot, None

    def view(self) -> ns.GcsItem:
        """Built once, however many receivers come later."""
        if self._view is None:
            record = self.record
            view = ns.NodeView(
                node_id=record.node_id,
                address=record.address,
                snapshot=self.snapshot,
                alive=True,
                is_head=record.is_head,
            )
            # Work in bundles goes straight to them: who schedules has no use for what they hold.
            view.snapshot.ClearField("bundle_use")
            self._view = ns.GcsItem(view=view)
        return self._view


class BroadcastTable:
    """Sessions in the fan-out, newest views, and a bounded log of node changes."""

    def __init__(self, *, views_to_all: bool) -> None:
        self._views_to_all = views_to_all
        self._members: dict[bytes, _Member] = {}
        self._open = OpenSessions()
        self._scheduler_address = ""
        self._receivers = OpenSessions()
        self._watchers: dict[int, None] = {}
        self._records: dict[bytes, t.NodeRecord] = {}
        self._dead: dict[bytes, t.NodeRecord] = {}
        self._log: deque[t.NodeRecord] = deque(maxlen=limits.NODE_REVISIONS_KEPT)
        self.views_out = 0

    @property
    def watchers_count(self) -> int:
        """Open `WatchNodes` streams."""
        return len(self._watchers)

    @property
    def views_count(self) -> int:
        """Nodes whose numbers are passed on."""
        return len(self._members)

    @property
    def log_length(self) -> int:
        """Node changes kept for watchers that come back."""
        return len(self._log)

    @property
    def subscriptions(self) -> int:
        """Streams that hear of node changes: of agents, and of operators. Never of workers."""
        return self._open.streams_count + len(self._watchers)

    def load(self, records: list[t.NodeRecord]) -> None:
        """Nodes of the last life of the service."""
        for record in sorted(records, key=lambda each: each.revision):
            self._keep(record)

    def opened(self, effect: NodeSessionOpened) -> list[FanOut]:
        """A welcomed node: it is told what it missed, and the views if it schedules."""
        session, record = effect.session, effect.record
        member = self._members[record.node_id] = _Member(record)
        # A session restates everything, so its first numbers count whatever their version.
        member.put(effect.snapshot)
        self._open.put(record.node_id, session)
        out = self._view(member)
        if effect.last_revision:
            out += [
                FanOut(
                    [session],
                    _change_item(missed, "", record.node_id),
                    ("node", missed.node_id, record.node_id),
                )
                for missed in self._deaths_after(effect.last_revision)
            ]
        if record.is_scheduler or self._views_to_all:
            self._receivers.put(record.node_id, session)
            views = [
                FanOut([session], other.view(), ("view", node_id))
                for node_id, other in self._members.items()
                if node_id != record.node_id and other.snapshot is not None
            ]
            self.views_out += len(views)
            out += views
        return out

    def closed(self, session: int, node_id: bytes) -> None:
        """A node's stream ended. Its view stays until it resumes or dies."""
        self._open.drop(node_id, session)
        self._receivers.drop(node_id, session)

    def snapshot(self, node_id: bytes, snapshot: ns.ResourceSnapshot) -> list[FanOut]:
        """A node's newest numbers, for the agents that schedule."""
        member = self._members.get(node_id)
        if member is None:
            return []
        known = member.snapshot
        if known is not None and known.version >= snapshot.version:
            return []
        member.put(snapshot)
        return self._view(member)

    def changed(self, record: t.NodeRecord, scheduler_address: str) -> list[FanOut]:
        """A node joined, resumed, drains or died."""
        before = self._records.get(record.node_id)
        self._keep(record)
        self._log.append(record)
        out = self._tell_agents(before, record, scheduler_address)
        if record.state == t.NODE_STATE_DEAD:
            member = self._members.pop(record.node_id, None)
            self._receivers.drop(record.node_id)
            if member is not None:
                gone = ns.NodeView(node_id=record.node_id, address=record.address, alive=False)
                self._open.drop(record.node_id)
                out += self._to_receivers(record.node_id, ns.GcsItem(view=gone))
        else:
            member = self._members.get(record.node_id)
            if member is not None:
                member.record = record
        if self._watchers:
            answer = g.WatchNodesResponse(nodes=[record], revision=record.revision)
            # A later change of the node replaces it unsent: a slow watcher's backlog is O(nodes).
            out.append(FanOut(list(self._watchers), answer, ("node", record.node_id)))
        return out

    def owners_ended(self, owner_ids: tuple[bytes, ...]) -> list[FanOut]:
        """Every agent hears once of owners that ended."""
        sessions = self._open.sessions()
        item = ns.GcsItem(owners_died=ns.OwnersDied(owner_ids=list(owner_ids)))
        return [FanOut(sessions, item, None)] if sessions else []

    def watch(self, session: int, from_revision: int) -> list[FanOut]:
        """A watcher: the changes it missed, or a snapshot when that is too long ago or 0."""
        self._watchers[session] = None
        newest = max((r.revision for r in self._records.values()), default=0)
        oldest = self._log[0].revision if self._log else newest + 1
        if from_revision and oldest <= from_revision + 1 <= newest + 1:
            missed = [record for record in self._log if record.revision > from_revision]
            answer = g.WatchNodesResponse(nodes=missed, revision=newest)
        else:
            records = sorted(self._records.values(), key=lambda record: record.revision)
            answer = g.WatchNodesResponse(snapshot=True, nodes=records, revision=newest)
        return [FanOut([session], answer, None)]

    def unwatch(self, session: int) -> None:
        """The watcher's stream ended."""
        self._watchers.pop(session, None)

    def _tell_agents(
        self, before: t.NodeRecord | None, record: t.NodeRecord, scheduler_address: str
    ) -> list[FanOut]:
        """Agents need to know who goes, who stays after all, and who schedules."""
        alive = record.state == t.NODE_STATE_ALIVE
        stays = alive and (before is None or before.state == t.NODE_STATE_ALIVE)
        # Agents that came while a scheduler was away know of none, or of another one.
        known = scheduler_address in ("", self._scheduler_address) and not record.is_scheduler
        if stays and known:
            return []
        self._scheduler_address = scheduler_address or self._scheduler_address
        sessions = self._open.sessions()
        is_lost = (
            record.is_scheduler and record.state == t.NODE_STATE_DEAD and not scheduler_address
        )
        item = _change_item(record, scheduler_address, is_lost=is_lost)
        return [FanOut(sessions, item, ("node", record.node_id))] if sessions else []

    def _view(self, member: _Member) -> list[FanOut]:
        origin = member.record.node_id
        # Looked at before anything is built: most clusters have one agent that schedules.
        if self._receivers.is_only(origin):
            return []
        return self._to_receivers(origin, member.view())

    def _to_receivers(self, origin: bytes, item: ns.GcsItem) -> list[FanOut]:
        sessions = self._receivers.sessions_but(origin)
        self.views_out += len(sessions)
        return [FanOut(sessions, item, ("view", origin))] if sessions else []

    def _keep(self, record: t.NodeRecord) -> None:
        self._records[record.node_id] = record
        if record.state != t.NODE_STATE_DEAD:
            return
        self._dead[record.node_id] = record
        if len(self._dead) > limits.DEAD_NODES_MAX:
            oldest = next(iter(self._dead))
            del self._dead[oldest]
            del self._records[oldest]

    def _deaths_after(self, revision: int) -> list[t.NodeRecord]:
        deaths: list[t.NodeRecord] = []
        for record in reversed(self._dead.values()):
            if record.revision <= revision:
                break
            deaths.append(record)
        return deaths[::-1]


def _change_item(
    record: t.NodeRecord, scheduler_address: str, to: bytes = b"", *, is_lost: bool = False
) -> ns.GcsItem:
    """For all nodes of a stream, or for the one named in `to`."""
    change = ns.NodeChange(node=record, scheduler_address=scheduler_address)
    change.scheduler_lost = is_lost
    return ns.GcsItem(node_id=to, node_change=change)
