"""Where a request goes: granted here, queued here, sent elsewhere, refused (DESIGN section 8).

An agent without the scheduler role grants what it can at once and sends the rest to the scheduler.
The scheduler prefers its own node, else chooses one by its views, else keeps the request until
something changes. A request that was sent here because it was chosen (`grant_or_reject`) never goes
further.
"""

from __future__ import annotations

from contextlib import suppress

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_common import labels, resources
from raylet_agent import limits
from raylet_agent.core import answers
from raylet_agent.core.demand import Demand
from raylet_agent.core.effects import Effect, SendToOwner
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.groups import GroupCommands
from raylet_agent.core.lease import Lease, LeaseState
from raylet_agent.core.leasing import Leasing
from raylet_agent.core.ledger import Ledger
from raylet_agent.core.node_questions import NodeQuestions
from raylet_agent.core.node_views import NodeView
from raylet_agent.core.owners import OwnerTable
from raylet_agent.core.runtime_env import environment_of
from raylet_agent.core.scheduler import (
    Chosen,
    Infeasible,
    NoRoom,
    Scheduler,
    UnknownNode,
    Unschedulable,
)
from raylet_agent.core.shape import shape_of
from raylet_agent.core.snapshots import Snapshots
from raylet_agent.core.timers import Timers

RETRY = "retry_lease"
AFFINITY_UNKNOWN = "affinity_unknown"
DEDUCTION = "deduction"


class Admission:
    """Decides on each request and on what waits when something changed."""

    def __init__(
        self,
        facts: NodeFacts,
        ledger: Ledger,
        owners: OwnerTable,
        leasing: Leasing,
        groups: GroupCommands,
        scheduler: Scheduler,
        demand: Demand,
        snapshots: Snapshots,
        timers: Timers,
        out: list[Effect],
    ) -> None:
        self._facts = facts
        self._ledger = ledger
        self._owners = owners
        self._leasing = leasing
        self._groups = groups
        self._scheduler = scheduler
        self._demand = demand
        self._snapshots = snapshots
        self._timers = timers
        self._out = out
        self.questions = NodeQuestions(out)

    def request(self, owner_id: bytes, request: a.LeaseRequest, now_ms: int) -> None:
        """One request of an owner; a repeat is answered from the books."""
        lease_id = request.lease_id
        if request.HasField("sending"):
            self._snapshots.sendings.came(request.sending, now_ms)
        known = self._leasing.leases.get(lease_id)
        if known is not None:
            self._demand.backlog_told(owner_id, request, known.shape)
            self._leasing.repeat(known)
            return
        fail = self._leasing.fail_id
        if self._owners.is_dead(owner_id, now_ms):
            fail(owner_id, lease_id, a.LEASE_FAILURE_OWNER_DEAD, f"owner {owner_id.hex()} died")
            return
        if self._leasing.cancelled.get(lease_id, now_ms) is not None:
            self._leasing.cancelled.drop(lease_id)
            fail(owner_id, lease_id, a.LEASE_FAILURE_CANCELLED, "cancelled before it came")
            return
        try:
            shape = shape_of(request)
        except ValueError as error:
            fail(owner_id, lease_id, a.LEASE_FAILURE_BAD_REQUEST, str(error))
            return
        try:
            environment_of(request.runtime_env_json)
        except ValueError as error:
            fail(owner_id, lease_id, a.LEASE_FAILURE_RUNTIME_ENV_FAILED, str(error))
            return
        if len(self._leasing.queue) >= limits.LEASES_QUEUED_MAX:
            message = f"{limits.LEASES_QUEUED_MAX} requests wait here already"
            fail(owner_id, lease_id, a.LEASE_FAILURE_BAD_REQUEST, message)
            return
        lease = Lease(lease_id, owner_id, request, shape, self._leasing.next_sequence())
        lease.counted_since = self._demand.backlog_told(owner_id, request, shape)
        self._admit(lease, now_ms)

    def backlog_told(self, owner_id: bytes, like: a.LeaseRequest, now_ms: int) -> None:
        """How many more requests like this there would be; who is wrong about it is not counted."""
        if not self._owners.is_dead(owner_id, now_ms):
            with suppress(ValueError):
                self._demand.backlog_told(owner_id, like, shape_of(like))

    def prepare(self, order: a.PrepareEnvironment) -> None:
        """Makes an environment ahead of the first request. What is wrong with it, that is told."""
        with suppress(ValueError):
            environments = self._leasing.pool.environments
            environments.want(order.runtime_env_json, order.job_id, b"")

    def retry(self, lease_id: bytes, now_ms: int) -> None:
        """A waiting lease may choose nodes again that rejected it."""
        lease = self._leasing.leases.get(lease_id)
        if lease is not None and lease.excluded and lease.state == LeaseState.WAITING:
            lease.excluded = {}
            self._try_waiting(lease, now_ms)

    def affinity_waited(self, lease_id: bytes, now_ms: int) -> None:
        """No word of the node a lease is bound to: it goes elsewhere if it may, else it fails."""
        lease = self._leasing.leases.get(lease_id)
        if lease is not None and lease.state == LeaseState.WAITING:
            self._try_waiting(lease, now_ms)

    def node_answered(self, answer: n.NodeAnswer, now_ms: int) -> None:
        """The GCS knows whether a node is in the cluster of which nothing was heard here."""
        decided = self.questions.answered(answer.node_id)
        for lease in () if answer.alive else self._leasing.queue.bound_to(answer.node_id):
            if lease.affinity_deadline_ms and lease.sequence <= decided:
                lease.affinity_deadline_ms = min(lease.affinity_deadline_ms, now_ms)
                self._try_waiting(lease, now_ms)

    def wake_group(self, group_id: bytes, freed: dict[str, int] | None, now_ms: int) -> None:
        """Room appeared in a group's bundles here."""
        self._leasing.queue.wake(group_id, freed, lambda x: self._try_group(x, now_ms))

    def wake_local(self, freed: dict[str, int] | None, now_ms: int) -> None:
        """Room appeared on this node."""
        self._leasing.queue.wake(b"", freed, lambda x: self._try_here(x, now_ms))

    def wake_elsewhere(self, view: NodeView, now_ms: int) -> None:
        """The view of another node changed: whatever may fit there is chosen for again."""

        def may_help(lease: Lease) -> bool:
            # Work that waits for word of this node is decided on by any word, even "too small".
            awaited = lease.affinity_deadline_ms > 0 and lease.shape.affinity == view.node_id
            return awaited or view.has_room(lease.shape)

        self._leasing.queue.wake(b"", None, lambda x: may_help(x) and self._try_waiting(x, now_ms))
        self._refresh_infeasible()

    def node_lost(self, now_ms: int) -> None:
        """A node is gone: what only it could hold is said to be infeasible, or fails.

        What was softly bound to it goes elsewhere.
        """
        for shape, line in self._leasing.queue.lines():
            freed = shape.affinity_soft and self._scheduler.views.is_dead(shape.affinity)
            choice = self._scheduler.choose(shape, {}, unknown_is_gone=True)
            if freed or isinstance(choice, (Infeasible, Unschedulable)):
                for lease in list(line.values()):
                    self._try_waiting(lease, now_ms)

    def scheduler_known(self, now_ms: int) -> None:
        """The scheduler's address (or this node's role) changed: what waits for it goes there."""
        self._leasing.queue.wake(b"", None, lambda x: self._try_waiting(x, now_ms))

    def _admit(self, lease: Lease, now_ms: int) -> None:
        shape = lease.shape
        self._leasing.adopt(lease)
        if shape.group_id:
            self._admit_in_group(lease, now_ms)
            return
        if lease.request.grant_or_reject:
            if not self._place_here(lease, now_ms, any_selector=True):
                self._leasing.forget(lease)
                self.reject(lease)
            else:
                self._demand.arrivals.took(lease, now_ms)
            return
        if self._facts.is_scheduler:
            sent_to = self._scheduler.views.sent_to(lease.lease_id)
            if sent_to is not None and sent_to.node_id not in lease.request.rejected_by:
                # The same question again: the same answer, or two nodes would grant it.
                self._leasing.forget(lease)
                self._redirect(lease, sent_to.node_id, sent_to.address, to_scheduler=False)
                return
            self._exclude(lease, now_ms)
        self._demand.came_back(lease)
        if self._route(lease, now_ms):
            self._left(lease, now_ms)
        else:
            self._leasing.wait(lease, now_ms)
            self._demand.waits(lease)

    def _admit_in_group(self, lease: Lease, now_ms: int) -> None:
        shape = lease.shape
        bundles = [
            bundle
            for bundle in self._ledger.bundles.of_group(shape.group_id)
            if shape.bundle_index in (-1, bundle.index) and not bundle.returning
        ]
        if not bundles:
            if self._groups.was_removed(shape.group_id, now_ms):
                reason = a.LEASE_FAILURE_PLACEMENT_GROUP_REMOVED
                message = f"placement group {shape.group_id.hex()} was removed"
            else:
                reason = a.LEASE_FAILURE_BUNDLE_NOT_HERE
                message = f"bundle {shape.bundle_index} of {shape.group_id.hex()} is not here"
            self._refuse(lease, reason, message)
        elif not any(bundle.pool.could_ever_hold(shape.needed()) for bundle in bundles):
            sizes = ", ".join(resources.text(bundle.pool.total) for bundle in bundles)
            message = f"{resources.text(shape.needed())} can never fit into the bundle ({sizes})"
            self._refuse(lease, a.LEASE_FAILURE_UNSCHEDULABLE, message)
        elif not self._place_in_group(lease, now_ms):
            self._leasing.wait(lease, now_ms)

    def _place_in_group(self, lease: Lease, now_ms: int) -> bool:
        # A bundle of a draining node moves with its group: its work waits for the new place.
        bundle = None if self._facts.draining else self._leasing.bundle_for(lease)
        if bundle is None:
            return False
        self._leasing.place(lease, bundle.pool, bundle, now_ms)
        return True

    def _try_group(self, lease: Lease, now_ms: int) -> bool:
        if not self._place_in_group(lease, now_ms):
            return False
        self._leasing.unqueue(lease)
        return True

    def _try_here(self, lease: Lease, now_ms: int) -> bool:
        if lease.shape.affinity_soft and lease.shape.affinity != self._facts.node_id:
            return self._try_waiting(lease, now_ms)
        if not self._place_here(lease, now_ms, any_selector=True):
            return False
        self._leasing.unqueue(lease)
        return True

    def _try_waiting(self, lease: Lease, now_ms: int) -> bool:
        """Routes a waiting lease; it leaves the queue if that worked, else it keeps its place."""
        if not self._route(lease, now_ms):
            return False
        self._left(lease, now_ms)
        self._leasing.unqueue(lease)
        return True

    def _left(self, lease: Lease, now_ms: int) -> None:
        """A request that counted as demand goes on counting until it is seen where it was sent."""
        if (target := self._scheduler.views.sent_to(lease.lease_id)) is not None:
            self._demand.left(lease, target.node_id, now_ms)

    def _room_here(self, lease: Lease, *, any_selector: bool) -> bool:
        shape = lease.shape
        if self._facts.draining:
            return False
        # Softly bound to another node: only a scheduler that looked there first sends it here.
        sent_here = shape.affinity_soft and lease.request.grant_or_reject
        if shape.affinity not in (b"", self._facts.node_id) and not sent_here:
            return False
        selectors = shape.selectors if any_selector else shape.selectors[:1]
        matching = any(labels.matches(each, self._facts.labels) for each in selectors)
        return matching and self._ledger.node.lacks(shape.needed()) is None

    def _place_here(self, lease: Lease, now_ms: int, *, any_selector: bool) -> bool:
        if not self._room_here(lease, any_selector=any_selector):
            return False
        self._leasing.place(lease, self._ledger.node, None, now_ms)
        return True

    def _route(self, lease: Lease, now_ms: int) -> bool:
        """Grants, sends away or refuses; False: it has to wait here. Does not touch the queue."""
        spread = lease.shape.strategy == a.SCHEDULING_STRATEGY_SPREAD or lease.shape.scattered
        if not spread and self._place_here(lease, now_ms, any_selector=False):
            return True
        if not self._facts.is_scheduler:
            return self._forward(lease, now_ms)
        waited = 0 < lease.affinity_deadline_ms <= now_ms
        choice = self._scheduler.choose(lease.shape, lease.excluded, unknown_is_gone=waited)
        if isinstance(choice, Chosen):
            return self._send(lease, choice.view, now_ms)
        if isinstance(choice, NoRoom):
            lease.infeasible = False
            return False
        if isinstance(choice, (Infeasible, UnknownNode)):
            if isinstance(choice, Infeasible):
                self._tell_infeasible(lease, choice.message)
            else:
                self._await_node(lease, now_ms)
            return False
        self._refuse(lease, a.LEASE_FAILURE_UNSCHEDULABLE, choice.message)
        return True

    def _await_node(self, lease: Lease, now_ms: int) -> None:
        if not lease.affinity_deadline_ms:
            lease.affinity_deadline_ms = now_ms + limits.AFFINITY_UNKNOWN_WAIT_MS
            self._timers.set(AFFINITY_UNKNOWN, lease.lease_id, lease.affinity_deadline_ms)
            self.questions.ask(lease.shape.affinity, lease.sequence)

    def _send(self, lease: Lease, view: NodeView, now_ms: int) -> bool:
        if view.own is not None:
            self._leasing.place(lease, view.own, None, now_ms)
            return True
        self._leasing.forget(lease)
        self._scheduler.views.deduct(view, lease.lease_id, lease.shape.held(), now_ms)
        self._timers.set_if_absent(DEDUCTION, b"", now_ms + limits.DEDUCTION_MS)
        self._redirect(lease, view.node_id, view.address, to_scheduler=False)
        return True

    def _forward(self, lease: Lease, now_ms: int) -> bool:
        shape = lease.shape
        mine = shape.affinity == self._facts.node_id
        if mine and self._facts.draining and not shape.affinity_soft:
            message = f"node {shape.affinity.hex()} drains and takes no work any more"
            self._refuse(lease, a.LEASE_FAILURE_UNSCHEDULABLE, message)
            return True
        if mine and not self._ledger.node.could_ever_hold(shape.needed()):
            if not shape.affinity_soft:
                has = resources.text(self._ledger.totals(with_groups=False))
                needs = resources.text(shape.needed())
                message = f"node {shape.affinity.hex()} has {has}, {needs} are needed"
                self._refuse(lease, a.LEASE_FAILURE_UNSCHEDULABLE, message)
                return True
        elif mine and not self._facts.draining:
            return False
        if self._facts.scheduler_address:
            self._leasing.forget(lease)
            self._redirect(lease, b"", self._facts.scheduler_address, to_scheduler=True)
            return True
        if self._place_here(lease, now_ms, any_selector=True):
            return True
        if not self._ledger.node.could_ever_hold(shape.needed()):
            self._tell_infeasible(lease, "no scheduler is known yet and this node is too small")
        return False

    def _exclude(self, lease: Lease, now_ms: int) -> None:
        """A request that comes (back) to the scheduler is nowhere else: its deduction ends."""
        views = self._scheduler.views
        views.undo(lease.lease_id)
        if lease.request.HasField("rejection"):
            views.corrected(lease.request.rejection, now_ms)
        lease.excluded = {**lease.excluded, **views.versions(lease.request.rejected_by)}
        if lease.excluded:
            self._timers.set(RETRY, lease.lease_id, now_ms + limits.REJECTION_HOLD_MS)

    def _refresh_infeasible(self) -> None:
        """A node joined or grew: leases that now only lack room are no longer infeasible."""
        for shape, line in self._leasing.queue.lines():
            head = next(iter(line.values()))
            if not head.infeasible:
                continue
            choice = self._scheduler.choose(shape, {}, unknown_is_gone=True)
            if isinstance(choice, (NoRoom, Chosen)):
                for lease in line.values():
                    lease.infeasible = False

    def _tell_infeasible(self, lease: Lease, message: str) -> None:
        if not lease.infeasible and lease.owner_id:
            item = answers.pending(lease.lease_id, infeasible=True, message=message)
            self._out.append(SendToOwner(lease.owner_id, item))
        lease.infeasible = True

    def reject(self, lease: Lease) -> None:
        """Sends a lease that is in no book any more back to the scheduler."""
        self._leasing.count("leases_rejected")
        self._demand.arrivals.sent_away(lease.lease_id)
        item = a.LeaseReject(
            lease_id=lease.lease_id,
            node_id=self._facts.node_id,
            reason="draining" if self._facts.draining else "insufficient_free",
            snapshot=self._snapshots.build(),
        )
        self._out.append(SendToOwner(lease.owner_id, a.LeaseItem(reject=item)))

    def _redirect(self, lease: Lease, node_id: bytes, address: str, *, to_scheduler: bool) -> None:
        self._leasing.count("leases_redirected")
        counted = self._demand.counted(lease)
        item = answers.redirect(
            lease.lease_id,
            node_id,
            address,
            to_scheduler=to_scheduler,
            counted=counted,
            sending=None if to_scheduler else self._scheduler.views.sending(lease.lease_id),
        )
        self._out.append(SendToOwner(lease.owner_id, item))

    def _refuse(self, lease: Lease, reason: a.LeaseFailure.ValueType, message: str) -> None:
        self._leasing.forget(lease)
        self._leasing.fail_id(lease.owner_id, lease.lease_id, reason, message)
