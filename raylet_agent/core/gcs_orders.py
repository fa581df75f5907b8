"""What the GCS says over the node session, and what the node states about itself there."""

from __future__ import annotations

from collections.abc import Callable

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent.core import answers
from raylet_agent.core.admission import Admission
from raylet_agent.core.demand import Demand
from raylet_agent.core.detached import DetachedActors
from raylet_agent.core.draining import Draining
from raylet_agent.core.effects import (
    Effect,
    ReportSnapshot,
    SendToOwner,
)
from raylet_agent.core.endings import Endings
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.groups import GroupCommands
from raylet_agent.core.ledger import Ledger
from raylet_agent.core.node_views import NodeViews
from raylet_agent.core.owners import OwnerTable
from raylet_agent.core.snapshots import Snapshots


class GcsOrders:
    """Dispatches items of the session by kind; welcome, refusal and ping are the shell's."""

    def __init__(
        self,
        facts: NodeFacts,
        ledger: Ledger,
        owners: OwnerTable,
        views: NodeViews,
        groups: GroupCommands,
        detached: DetachedActors,
        endings: Endings,
        admission: Admission,
        demand: Demand,
        snapshots: Snapshots,
        draining: Draining,
        out: list[Effect],
    ) -> None:
        self._facts = facts
        self._ledger = ledger
        self._owners = owners
        self._views = views
        self._groups = groups
        self._detached = detached
        self._endings = endings
        self._admission = admission
        self._demand = demand
        self._snapshots = snapshots
        self._out = out
        self._scheduler_id = b""
        """Of the agent at `scheduler_address`; empty: only the address is known."""
        self._handlers: dict[str, Callable[[n.GcsItem, int], None]] = {
            "bundle": self._bundle,
            "start_detached_actor": self._start_detached,
            "kill_detached_actor": lambda x, now: detached.kill(x.kill_detached_actor, now),
            "owners_died": self._owners_died,
            "view": lambda x, now: self._view(x.view, now),
            "node_change": lambda x, now: self._node_changed(x.node_change, now),
            "drain": lambda x, now: draining.order(x.drain, now),
            "node_answer": lambda x, now: admission.node_answered(x.node_answer, now),
        }

    def registration(self, incarnation: int, last_revision: int) -> n.RegisterNode:
        """What opens a node session: identity and everything held here."""
        facts = self._facts
        return n.RegisterNode(
            cluster_id=facts.cluster_id,
            incarnation=incarnation,
            last_revision=last_revision,
            address=facts.address,
            hostname=facts.hostname,
            node_name=facts.node_name,
            total=t.ResourceSet(amounts=self._ledger.totals(with_groups=False)),
            labels=facts.labels,
            is_head=facts.is_head,
            is_scheduler=facts.is_scheduler,
            start_time_ms=facts.start_time_ms,
            pid=facts.pid,
            bundles=[answers.held_bundle(bundle) for bundle in self._ledger.bundles.rows()],
            detached=self._detached.held(),
            owner_ids=[owner.owner_id for owner in self._owners.rows()],
            snapshot=self._snapshots.build(),
            demand=self._snapshots.demand(),
        )

    def registering(self, now_ms: int) -> None:
        """A new session begins: reservation counters of the earlier one mean nothing in it."""
        self._snapshots.applied_reservations = 0
        self._snapshots.now_ms = now_ms

    def welcomed(self, welcome: n.Welcome, now_ms: int) -> None:
        """The GCS took this node in."""
        facts = self._facts
        facts.cluster_id, facts.epoch = welcome.cluster_id, welcome.epoch
        facts.session_name = welcome.session_name or facts.session_name
        self._scheduler_id = b""
        self._admission.questions.session_began()
        self._set_scheduler(welcome.scheduler_address, now_ms)

    def item(self, item: n.GcsItem, now_ms: int) -> None:
        """One order or piece of news."""
        handler = self._handlers.get(item.WhichOneof("item") or "")
        if handler is not None:
            handler(item, now_ms)

    def _bundle(self, item: n.GcsItem, now_ms: int) -> None:
        sequence = item.bundle.reservation_seq
        if item.bundle.action == n.BUNDLE_ACTION_COMMIT:
            # Commits change no amounts: the number goes with the next snapshot that has news.
            snapshots = self._snapshots
            snapshots.applied_reservations = max(snapshots.applied_reservations, sequence)
        else:
            self._reserve(sequence)
        for group_id in self._groups.command(item.bundle, now_ms):
            self._admission.wake_group(group_id, None, now_ms)

    def _start_detached(self, item: n.GcsItem, now_ms: int) -> None:
        self._reserve(item.start_detached_actor.reservation_seq)
        self._detached.start(item.start_detached_actor, now_ms)

    def _view(self, view: n.NodeView, now_ms: int) -> None:
        self._views.received(view, now_ms)
        self._demand.seen(view)

    def _owners_died(self, item: n.GcsItem, now_ms: int) -> None:
        for owner_id in item.owners_died.owner_ids:
            owner = self._owners.get(owner_id)
            if owner is not None and owner.connected:
                refused = answers.declared_dead(owner_id, " by the GCS")
                self._out.append(SendToOwner(owner_id, a.LeaseItem(refused=refused)))
            self._endings.owner_gone(owner_id, "its process ended", now_ms)
            self._demand.owner_gone(owner_id)

    def _reserve(self, sequence: int) -> None:
        """The effect of this command, even a refusal, is in every snapshot from now on."""
        if sequence > self._snapshots.applied_reservations:
            self._snapshots.applied_reservations = sequence
            self._out.append(ReportSnapshot())

    def _node_changed(self, change: n.NodeChange, now_ms: int) -> None:
        if change.node.state == t.NODE_STATE_DEAD:
            self._views.lost(change.node.node_id)
        for owner in self._owners.rows():
            if owner.connected:
                item = a.LeaseItem(node_change=change)
                self._out.append(SendToOwner(owner.owner_id, item))
        self._scheduler_changed(change, now_ms)

    def _scheduler_changed(self, change: n.NodeChange, now_ms: int) -> None:
        node, address = change.node, change.scheduler_address
        if address:
            if address != self._facts.scheduler_address:
                self._scheduler_id = b""
            if node.address == address and node.state != t.NODE_STATE_DEAD:
                self._scheduler_id = node.node_id
            self._set_scheduler(address, now_ms)
        elif change.scheduler_lost and self._scheduler_id in (b"", node.node_id):
            # Else its successor, which may have the same address, was heard of first.
            self._set_scheduler("", now_ms)  # requests wait here until there is another one

    def _set_scheduler(self, address: str, now_ms: int) -> None:
        if address != self._facts.scheduler_address:
            self._facts.scheduler_address = address
            self._admission.scheduler_known(now_ms)
