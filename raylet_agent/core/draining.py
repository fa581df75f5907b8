"""The end of a node in order: nothing new once it is accepted, what runs may finish, then it goes.

Ordered by the GCS (preemption: the machine goes at the deadline; idle termination: only where
nothing runs) or by a signal to the agent's process. Owners are told by the node itself, before the
GCS hears of the acceptance: they stop using what they have leased here.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent import limits
from raylet_agent.core.admission import Admission
from raylet_agent.core.effects import (
    Effect,
    EndAgent,
    ReportDemand,
    ReportSnapshot,
    SendToGcs,
    SendToOwner,
)
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.lease import Lease, LeaseState
from raylet_agent.core.leasing import Leasing
from raylet_agent.core.ledger import Ledger
from raylet_agent.core.node_views import NodeViews
from raylet_agent.core.owners import OwnerTable
from raylet_agent.core.timers import Timers

DRAIN_END = "drain_end"
DRAIN_OVER = "drain_over"


class Draining:
    """At most one drain; a later order replaces its deadline. `on_detached_refused` is set once."""

    def __init__(
        self,
        facts: NodeFacts,
        ledger: Ledger,
        leasing: Leasing,
        owners: OwnerTable,
        views: NodeViews,
        admission: Admission,
        timers: Timers,
        out: list[Effect],
    ) -> None:
        self._facts = facts
        self._ledger = ledger
        self._leasing = leasing
        self._owners = owners
        self._views = views
        self._admission = admission
        self._timers = timers
        self._out = out
        self._cause: t.NodeDeathCause.ValueType = t.NODE_DEATH_CAUSE_EXPECTED
        self._message = ""
        self._ending = False
        self._over = False
        self.on_detached_refused: Callable[[Lease], None]

    def order(self, command: n.DrainCommand, now_ms: int) -> None:
        """The GCS's order; an idle termination is declined while anything runs here."""
        if command.cancel:
            self._cancel(now_ms)
            return
        idle_only = command.reason == n.DRAIN_REASON_IDLE_TERMINATION
        if idle_only and (work := self._work()):
            self._answer(n.DrainAnswer(accepted=False, message=f"the node is not idle: {work}"))
            return
        cause = t.NODE_DEATH_CAUSE_DRAINED_IDLE if idle_only else t.NODE_DEATH_CAUSE_PREEMPTED
        self._begin(cause, command.message or "drained", command.deadline_ms, now_ms)
        self._answer(n.DrainAnswer(accepted=True))

    def asked_to_stop(self, grace_ms: int, message: str, now_ms: int) -> None:
        """Its process is to end: at once when nothing runs, else within `grace_ms`."""
        if self._over:
            return
        if not self._running() or grace_ms <= 0:
            self._over = True
            cause = self._cause if self._facts.draining else t.NODE_DEATH_CAUSE_EXPECTED
            self._out.append(EndAgent(cause, message))
            return
        deadline_ms = now_ms + grace_ms + self._facts.wall_offset_ms
        if self._facts.draining:
            deadline_ms = min(deadline_ms, self._facts.drain_deadline_ms)
        self._begin(t.NODE_DEATH_CAUSE_PREEMPTED, message, deadline_ms, now_ms)
        self._answer(
            n.DrainAnswer(
                accepted=True,
                message=message,
                reason=n.DRAIN_REASON_PREEMPTION,
                deadline_ms=deadline_ms,
            )
        )

    def refused(self, message: str) -> None:
        """The cluster wants nothing of this node, which ends now: its owners hear why."""
        cause = t.NODE_DEATH_CAUSE_REFUSED
        self._owners_hear(
            t.NodeRecord(state=t.NODE_STATE_DEAD, death_cause=cause, death_message=message)
        )

    def end_due(self, now_ms: int) -> None:
        """The deadline: whatever still runs ends now, and its owners hear why."""
        self._ending = True
        self._timers.set(DRAIN_OVER, b"", now_ms + limits.DRAIN_KILL_MS)
        message = f"node {self._facts.node_id.hex()} was preempted: {self._message}"
        for lease in list(self._leasing.leases.values()):
            if lease.state == LeaseState.GRANTED:
                worker = self._leasing.pool.get(lease.worker_id)
                assert worker is not None, f"lease {lease.lease_id.hex()} has lost its worker"
                cause = a.WORKER_END_CAUSE_PREEMPTED
                self._leasing.pool.stop(worker, cause, message, now_ms)
            elif lease.state != LeaseState.ENDING:
                self._send_away(lease)

    def over_due(self) -> None:
        """Processes that do not end are left to the end of the agent."""
        self._end()

    def settle(self) -> None:
        """After every event: a draining node on which nothing runs any more goes."""
        if not self._facts.draining or self._over or self._running():
            return
        if self._ending or not self._home_drivers():
            self._end()

    def _begin(
        self, cause: t.NodeDeathCause.ValueType, message: str, deadline_ms: int, now_ms: int
    ) -> None:
        facts = self._facts
        self._cause, self._message = cause, message
        facts.drain_deadline_ms = deadline_ms
        left_ms = max(0, deadline_ms - facts.wall_offset_ms - now_ms)
        margin_ms = min(limits.DRAIN_MARGIN_MS_MAX, left_ms // limits.DRAIN_MARGIN_SHARE)
        self._timers.set(DRAIN_END, b"", now_ms + left_ms - margin_ms)
        if facts.draining:
            return
        self._mark(draining=True)
        # Idle leases come back at once, busy ones when what runs is over.
        self._owners_hear(t.NodeRecord(state=t.NODE_STATE_DRAINING))
        for lease in list(self._leasing.leases.values()):
            if lease.state == LeaseState.STARTING:
                self._send_away(lease)
        # What waits here and may run elsewhere goes on its way.
        self._admission.scheduler_known(now_ms)
        self._out += [ReportDemand(), ReportSnapshot()]

    def _cancel(self, now_ms: int) -> None:
        if not self._facts.draining or self._ending or self._over:
            return
        self._facts.drain_deadline_ms = 0
        self._timers.cancel(DRAIN_END, b"")
        self._mark(draining=False)
        self._admission.wake_local(None, now_ms)
        for group_id in {bundle.group_id: None for bundle in self._ledger.bundles.rows()}:
            self._admission.wake_group(group_id, None, now_ms)
        self._out.append(ReportSnapshot())

    def _mark(self, *, draining: bool) -> None:
        self._facts.draining = draining
        own = self._views.get(self._facts.node_id)
        assert own is not None, "the own node is always in view"
        own.draining = draining

    def _owners_hear(self, record: t.NodeRecord) -> None:
        """What becomes of this node, completed by who it is."""
        facts = self._facts
        record.node_id, record.address = facts.node_id, facts.address
        record.node_name, record.drain_deadline_ms = facts.node_name, facts.drain_deadline_ms
        item = a.LeaseItem(node_change=n.NodeChange(node=record))
        for owner in self._owners.rows():
            if owner.connected:
                self._out.append(SendToOwner(owner.owner_id, item))

    def _send_away(self, lease: Lease) -> None:
        """Ends a lease that has no worker; its owner (or the GCS) looks for another node."""
        if not lease.owner_id:
            self.on_detached_refused(lease)
        elif lease.shape.group_id:
            message = f"node {self._facts.node_id.hex()} drains"
            self._leasing.fail(lease, a.LEASE_FAILURE_BUNDLE_NOT_HERE, message)
        else:
            self._leasing.drop(lease)
            self._admission.reject(lease)

    def _running(self) -> bool:
        return any(x.state != LeaseState.WAITING for x in self._leasing.leases.values())

    def _home_drivers(self) -> bool:
        return any(x.is_home and x.is_driver and x.connected for x in self._owners.rows())

    def _work(self) -> str:
        """What keeps the node from being idle; empty when it is."""
        leases = sum(x.state != LeaseState.WAITING for x in self._leasing.leases.values())
        bundles = sum(1 for _ in self._ledger.bundles.rows())
        found = [f"{leases} leases"] if leases else []
        found += [f"{bundles} bundles"] if bundles else []
        found += ["a driver"] if self._home_drivers() else []
        return ", ".join(found)

    def _answer(self, answer: n.DrainAnswer) -> None:
        self._out.append(SendToGcs(n.AgentItem(drain_answer=answer)))

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._out.append(EndAgent(self._cause, self._message))
