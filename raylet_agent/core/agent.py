"""The agent's decisions as one object: events in, ordered effects out.

The shell calls one method per event with the monotonic time, then takes `drain()` and carries the
effects out, then asks `next_deadline_ms()` for its one timer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_common.identity_resources import identity_of, without_identity
from cluster_common.resources import Vector
from raylet_agent import limits
from raylet_agent.core import endings, worker_pool
from raylet_agent.core.admission import AFFINITY_UNKNOWN, DEDUCTION, RETRY, Admission
from raylet_agent.core.demand import Demand
from raylet_agent.core.detached import DetachedActors
from raylet_agent.core.draining import DRAIN_END, DRAIN_OVER, Draining
from raylet_agent.core.effects import Effect, ReportSnapshot, SendToWorker
from raylet_agent.core.endings import Endings
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.gcs_orders import GcsOrders
from raylet_agent.core.groups import GroupCommands
from raylet_agent.core.leasing import Leasing
from raylet_agent.core.ledger import Ledger
from raylet_agent.core.node_views import NodeView, NodeViews
from raylet_agent.core.owners import OwnerTable
from raylet_agent.core.scheduler import Scheduler
from raylet_agent.core.snapshots import Snapshots
from raylet_agent.core.timers import Timers
from raylet_agent.core.worker_pool import WorkerPool

COUNTS = "counts"
LINK_LOST = "link_lost"


class AgentCore:
    """Composition of the agent's parts.

    Args:
        facts: identity and role of the node.
        total: its resources, fixed point.
        new_id: source of worker ids.
        random: seeded source for choices among equals.
        ahead: workers kept forked ahead after the first use.
        now_ms: monotonic time of the start.
    """

    def __init__(
        self,
        facts: NodeFacts,
        total: Vector,
        new_id: Callable[[], bytes],
        random: Random,
        ahead: int,
        now_ms: int = 0,
    ) -> None:
        self.facts = facts
        self._out: list[Effect] = []
        self._timers = Timers()
        self.ledger = Ledger(total, identity_of(facts.address, is_head=facts.is_head))
        self.owners = OwnerTable()
        self.views = NodeViews()
        self.views.put_own(_own_view(facts, self.ledger))
        self.leasing = Leasing(facts, self.ledger, self.owners, self._out)
        self.pool = WorkerPool(self._out, self._timers, new_id, ahead, self.leasing.matched)
        self.leasing.pool = self.pool
        self.demand = Demand(facts, self.leasing.queue, self._out)
        self.snapshots = Snapshots(facts, self.ledger, self.demand, now_ms)
        self.groups = GroupCommands(facts, self.ledger, self.leasing, self._out)
        self.detached = DetachedActors(facts, self.ledger, self.leasing, self._out)
        self.endings = Endings(
            facts, self.owners, self.leasing, self.views, self._timers, self._out
        )
        self.endings.on_detached_ended = self.detached.ended
        self.endings.on_cancelled_elsewhere = self.demand.withdrawn
        self.scheduler = Scheduler(facts.node_id, self.views, random)
        self.admission = Admission(
            facts,
            self.ledger,
            self.owners,
            self.leasing,
            self.groups,
            self.scheduler,
            self.demand,
            self.snapshots,
            self._timers,
            self._out,
        )
        self.draining = Draining(
            facts,
            self.ledger,
            self.leasing,
            self.owners,
            self.views,
            self.admission,
            self._timers,
            self._out,
        )
        self.draining.on_detached_refused = self.detached.refuse
        self._gcs = GcsOrders(
            facts,
            self.ledger,
            self.owners,
            self.views,
            self.groups,
            self.detached,
            self.endings,
            self.admission,
            self.demand,
            self.snapshots,
            self.draining,
            self._out,
        )
        self._reported_counts = (0, 0, 0)
        self._deadlines = self._deadline_handlers()

    def _deadline_handlers(self) -> dict[str, Callable[[bytes, int], None]]:
        """What a deadline of each kind calls, with what it is about and the moment."""
        return {
            worker_pool.REFILL: lambda _about, _now: self.pool.refill(),
            worker_pool.TRIM: lambda _about, now: self.pool.trim(now),
            endings.OWNER_REOPEN: lambda about, _now: self.endings.reopen_expired(about),
            endings.OWNER_AWAY: self.endings.away_expired,
            endings.OWNER_PROBE: lambda about, _now: self.endings.probe_due(about),
            DRAIN_END: lambda _about, now: self.draining.end_due(now),
            DRAIN_OVER: lambda _about, _now: self.draining.over_due(),
            RETRY: self.admission.retry,
            AFFINITY_UNKNOWN: self.admission.affinity_waited,
        }

    # ---- for the shell

    def drain(self) -> list[Effect]:
        """Effects since the last call, in order."""
        effects = self._out[:]
        self._out.clear()
        return effects

    def next_deadline_ms(self) -> int | None:
        """When `tick` wants to be called."""
        return self._timers.next_ms()

    @property
    def deadlines_count(self) -> int:
        """Deadlines kept, superseded ones included."""
        return len(self._timers)

    def settle(self, now_ms: int) -> None:
        """After every event: what became free goes to those who wait."""
        self.snapshots.now_ms = now_ms
        while self.leasing.freed_now:
            freed = self.leasing.freed_now[:]
            self.leasing.freed_now.clear()
            merged: dict[bytes, dict[str, int]] = {}
            for group_id, amounts in freed:
                merged.setdefault(group_id, {}).update(amounts)
            for group_id, amounts in merged.items():
                if group_id:
                    self.admission.wake_group(group_id, amounts, now_ms)
                else:
                    self.admission.wake_local(amounts, now_ms)
        if self.views.touched and self.facts.is_scheduler:
            touched = list(self.views.touched)
            for node_id in touched:
                view = self.views.get(node_id)
                if view is not None:
                    self.admission.wake_elsewhere(view, now_ms)
        self.views.touched.clear()
        if self.views.node_lost and self.facts.is_scheduler:
            self.views.node_lost = False
            self.admission.node_lost(now_ms)
        for owner_id in self.owners.take_left():
            self.demand.owner_gone(owner_id)
        self.draining.settle()
        self._watch_counts(now_ms)

    def asked_to_stop(self, grace_ms: int, message: str, now_ms: int) -> None:
        """The process is to end: in order, within `grace_ms`."""
        self.draining.asked_to_stop(grace_ms, message, now_ms)
        self.settle(now_ms)

    def tick(self, now_ms: int) -> None:
        """Deadlines that have come."""
        for kind, about in self._timers.take_due(now_ms):
            self._deadline(kind, about, now_ms)
        self.settle(now_ms)

    def _deadline(self, kind: str, about: bytes, now_ms: int) -> None:
        handler = self._deadlines.get(kind)
        if handler is not None:
            handler(about, now_ms)
        elif kind == worker_pool.REGISTER:
            self._stop_worker(about, "it did not register in time", now_ms)
        elif kind in (worker_pool.EXIT_GRACE, LINK_LOST):
            self._stop_worker(about, "it did not end in time", now_ms)
        elif kind == DEDUCTION:
            for lease_id in self.views.expired(now_ms):
                self.views.undo(lease_id)
            self.demand.expire(now_ms)
            due_ms = self.views.next_expiry_ms()
            if len(self.demand.transit):
                soon_ms = now_ms + limits.DEDUCTION_MS // 4
                due_ms = soon_ms if due_ms is None else min(due_ms, soon_ms)
            if due_ms is not None:
                self._timers.set(DEDUCTION, b"", due_ms)
        else:
            assert kind == COUNTS, f"unknown deadline {kind}"
            self._out.append(ReportSnapshot())

    def _stop_worker(self, worker_id: bytes, message: str, now_ms: int) -> None:
        worker = self.pool.get(worker_id)
        if worker is not None:
            self.pool.stop(worker, a.WORKER_END_CAUSE_CRASHED, message, now_ms)

    def _watch_counts(self, now_ms: int) -> None:
        leases = len(self.leasing.leases) - len(self.leasing.queue)
        if leases == 0 and self.snapshots.leases > 0:
            self.snapshots.idle_since_ms = now_ms
        self.snapshots.workers, self.snapshots.leases = len(self.pool), leases
        counts = (len(self.pool), leases, self.leasing.bundle_changes)
        if counts == self._reported_counts:
            return
        if any(isinstance(effect, ReportSnapshot) for effect in self._out):
            self._reported_counts = counts
            self._timers.cancel(COUNTS, b"")
        else:
            self._timers.set_if_absent(COUNTS, b"", now_ms + limits.COUNTS_REPORT_DELAY_MS)

    # ---- the GCS

    def registration(self, incarnation: int, last_revision: int) -> n.RegisterNode:
        """What opens a node session: identity and everything held here."""
        return self._gcs.registration(incarnation, last_revision)

    def registering(self, now_ms: int) -> None:
        """A new session begins: reservation counters of the earlier one mean nothing in it."""
        self._gcs.registering(now_ms)

    def welcomed(self, welcome: n.Welcome, now_ms: int) -> None:
        """The GCS took this node in."""
        self._gcs.welcomed(welcome, now_ms)
        self.settle(now_ms)

    def refused(self, message: str) -> None:
        """The GCS does not take this node in, or not any more; the agent ends."""
        self.draining.refused(message)

    def gcs_item(self, item: n.GcsItem, now_ms: int) -> None:
        """One item of the node session (welcome, refusal and ping are the shell's)."""
        self._gcs.item(item, now_ms)
        self.settle(now_ms)

    # ---- owners

    def owner_opened(self, opening: a.OpenOwner, now_ms: int) -> a.AgentWelcome | None:
        """An owner opened a session; None when it is dead."""
        if self.owners.is_dead(opening.owner_id, now_ms):
            return None
        owner = self.owners.opened(opening)
        unknown = self.endings.session_opened(owner, opening.held_lease_ids, now_ms)
        facts = self.facts
        welcome = a.AgentWelcome(
            cluster_id=facts.cluster_id,
            node_id=facts.node_id,
            scheduler_address=facts.address if facts.is_scheduler else facts.scheduler_address,
            session_name=facts.session_name,
            node_name=facts.node_name,
            labels=facts.labels,
            gcs_address=facts.gcs_address,
            is_scheduler=facts.is_scheduler,
            unknown_lease_ids=unknown,
        )
        self.settle(now_ms)
        return welcome

    def owner_items(self, owner_id: bytes, items: Sequence[a.OwnerItem], now_ms: int) -> None:
        """One frame of a session; void when its owner was forgotten meanwhile."""
        if self.owners.get(owner_id) is None and not self.owners.is_dead(owner_id, now_ms):
            return
        for item in items:
            kind = item.WhichOneof("item")
            if kind == "request":
                self.admission.request(owner_id, item.request, now_ms)
            elif kind == "return_lease":
                self.endings.returned(owner_id, item.return_lease, now_ms)
            elif kind == "cancel":
                self.endings.cancelled(owner_id, item.cancel.lease_ids, now_ms)
            elif kind == "closing":
                self.endings.owner_closing(owner_id, item.closing.reason, now_ms)
            elif kind == "prepare":
                self.admission.prepare(item.prepare)
            elif kind == "backlog":
                self.admission.backlog_told(owner_id, item.backlog, now_ms)
        self.settle(now_ms)

    def session_lost(self, owner_id: bytes, now_ms: int) -> None:
        """The owner's session broke."""
        self.endings.session_lost(owner_id, now_ms)
        self.settle(now_ms)

    def owner_probed(self, owner_id: bytes, *, refused: bool, now_ms: int) -> None:
        """Answer to `ProbeOwner`."""
        self.endings.probed(owner_id, refused=refused, now_ms=now_ms)
        self.settle(now_ms)

    # ---- workers

    def worker_spawned(self, worker_id: bytes, pid: int, now_ms: int) -> None:
        """The fork server made the process."""
        self.pool.spawned(worker_id, pid, now_ms)

    def worker_registered(
        self, registration: a.RegisterWorker, now_ms: int
    ) -> a.WorkerCommand | None:
        """A worker opened its link; None: it is not wanted.

        The welcome must be queued before the effects of this event are carried out.
        """
        facts = self.facts
        worker = self.pool.get(registration.worker_id)
        if worker is None or worker.state != worker_pool.WorkerState.STARTING:
            return None
        welcome = a.WorkerWelcome(
            cluster_id=facts.cluster_id,
            node_id=facts.node_id,
            agent_address=facts.address,
            gcs_address=facts.gcs_address,
            session_name=facts.session_name,
            node_name=facts.node_name,
            labels=facts.labels,
        )
        command = a.WorkerCommand(welcome=welcome)
        self._out.append(SendToWorker(registration.worker_id, command))
        self.pool.registered(registration.worker_id, registration.pid, registration.address, now_ms)
        self.pool.top_up(now_ms)
        self.settle(now_ms)
        return command

    def worker_items(self, worker_id: bytes, items: Sequence[a.WorkerItem], now_ms: int) -> None:
        """One frame of a worker's link."""
        for item in items:
            kind = item.WhichOneof("item")
            if kind == "blocked":
                lease = self.leasing.leases.get(item.blocked.lease_id)
                if lease is not None and lease.worker_id == worker_id:
                    self.leasing.blocked(lease)
            elif kind == "unblocked":
                lease = self.leasing.leases.get(item.unblocked.lease_id)
                if lease is not None and lease.worker_id == worker_id:
                    self.leasing.unblocked(lease)
            elif kind == "exiting":
                self.endings.worker_exiting(worker_id, item.exiting)
            elif kind == "actor_created":
                self.detached.created(worker_id, item.actor_created, now_ms)
        self.settle(now_ms)

    def link_lost(self, worker_id: bytes, now_ms: int) -> None:
        """A worker's link closed: it ends by itself, or is ended."""
        if self.pool.get(worker_id) is not None:
            self._timers.set(LINK_LOST, worker_id, now_ms + limits.LINK_LOST_GRACE_MS)

    def worker_ended(self, worker_id: bytes, exit_code: int, tail: str, now_ms: int) -> None:
        """The process is gone."""
        self._timers.cancel(LINK_LOST, worker_id)
        self.endings.worker_ended(worker_id, exit_code, tail, now_ms)
        self.settle(now_ms)

    # ---- runtime environments

    def environment_made(self, environment: str, now_ms: int) -> None:
        """The shell made it: workers of it may start."""
        self.pool.environment_made(environment)
        self.settle(now_ms)

    def environment_failed(self, environment: str, message: str, now_ms: int) -> None:
        """The shell cannot make it."""
        self.endings.environment_failed(environment, message)
        self.settle(now_ms)

    def prestart(self) -> None:
        """Forks workers ahead before anybody asks."""
        self.pool.prestart()


def _own_view(facts: NodeFacts, ledger: Ledger) -> NodeView:
    return NodeView(
        node_id=facts.node_id,
        address=facts.address,
        labels=facts.labels,
        total=ledger.node.total,
        counted=without_identity(ledger.node.total),
        names=ledger.identity,
        available={},
        device_free={},
        own=ledger.node,
    )
