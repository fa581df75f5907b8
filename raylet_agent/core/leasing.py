"""The life of leases: asked for, placed, granted, given back.

Resources are taken before a worker is looked for and come back when the lease ended in order, or
when the killed worker's process is gone: what is free in the books is free on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster_api.v1 import agent_pb2 as a
from raylet_agent import limits
from raylet_agent.core import answers
from raylet_agent.core.bundles import Bundle
from raylet_agent.core.effects import (
    Effect,
    LabelOutput,
    ReportDemand,
    ReportSnapshot,
    SendToOwner,
    SendToWorker,
)
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.lease import Lease, LeaseState
from raylet_agent.core.lease_queue import LeaseQueue
from raylet_agent.core.ledger import Ledger
from raylet_agent.core.owners import OwnerTable
from raylet_agent.core.resource_pool import ResourcePool
from raylet_agent.core.tombstones import Tombstones
from raylet_agent.core.worker_pool import Worker, WorkerPool

BLOCKED_RESOURCE = "CPU"
"""What a worker that waits in get() lends meanwhile."""


class Leasing:
    """All leases of the node. Hooks are set by the composition, once.

    Args:
        facts: identity of the node.
        ledger: its resources.
        owners: its owners.
        out: where effects go.
    """

    def __init__(
        self, facts: NodeFacts, ledger: Ledger, owners: OwnerTable, out: list[Effect]
    ) -> None:
        self._facts = facts
        self._ledger = ledger
        self._owners = owners
        self._out = out
        self.pool: WorkerPool
        self.queue = LeaseQueue()
        self.leases: dict[bytes, Lease] = {}
        self.cancelled = Tombstones(limits.CANCEL_TOMBSTONE_MS, limits.CANCEL_TOMBSTONES_MAX)
        self._owing: dict[bytes, Lease] = {}
        self.freed_now: list[tuple[bytes, dict[str, int]]] = []
        self._sequence = 0
        self._last_give_back_ms = -limits.GIVE_BACK_INTERVAL_MS
        self.counters: dict[str, int] = {}
        self.bundle_changes = 0
        """How often what is used of some bundle changed."""
        self.on_detached_granted: Callable[[Lease, Worker], None]
        self.on_detached_failed: Callable[[Lease, a.LeaseFailure.ValueType, str], None]
        self.on_bundle_emptied: Callable[[Bundle], None]

    def count(self, event: str) -> None:
        """Counts an event for operators."""
        self.counters[event] = self.counters.get(event, 0) + 1

    def next_sequence(self) -> int:
        """Order of arrival."""
        self._sequence += 1
        return self._sequence

    def adopt(self, lease: Lease) -> None:
        """A new lease enters the books."""
        assert lease.lease_id not in self.leases, f"lease {lease.lease_id.hex()} exists"
        self.leases[lease.lease_id] = lease
        owner = self._owners.get(lease.owner_id)
        if owner is not None:
            owner.lease_ids[lease.lease_id] = None

    def wait(self, lease: Lease, now_ms: int) -> None:
        """No room now: the lease goes to the end of its line, idle leases are asked back."""
        lease.state = LeaseState.WAITING
        self.queue.add(lease)
        self._out.append(ReportDemand())
        self._ask_back(now_ms)

    def unqueue(self, lease: Lease) -> None:
        """The lease waits no more."""
        self.queue.remove(lease)
        self._out.append(ReportDemand())

    def place(self, lease: Lease, pool: ResourcePool, bundle: Bundle | None, now_ms: int) -> None:
        """There is room: take it and look for a worker."""
        pool.take(lease.lease_id, lease.shape.held())
        lease.pool, lease.bundle = pool, bundle
        lease.state = LeaseState.STARTING
        lease.infeasible = False
        if bundle is not None:
            self.bundle_changes += 1
        elif lease.shape.hold:
            self._out.append(ReportSnapshot())
        self.pool.want(lease, now_ms)

    def bundle_for(self, lease: Lease) -> Bundle | None:
        """The first bundle of its group that has room."""
        for bundle in self._ledger.bundles.of_group(lease.shape.group_id):
            if lease.shape.bundle_index not in (-1, bundle.index):
                continue
            if not bundle.committed or bundle.returning:
                continue
            if bundle.pool.lacks(lease.shape.needed()) is None:
                return bundle
        return None

    def matched(self, lease: Lease, worker: Worker) -> None:
        """The lease got its worker: the worker hears first, then the owner."""
        assert lease.pool is not None
        assert lease.state == LeaseState.STARTING, f"lease {lease.lease_id.hex()} is {lease.state}"
        lease.state = LeaseState.GRANTED
        owner = self._owners.get(lease.owner_id)
        allotment = lease.pool.grants[lease.lease_id]
        begin = answers.lease_begin(lease, owner, allotment)
        self._out.append(SendToWorker(worker.worker_id, begin))
        request = lease.request
        if owner is not None:
            address = owner.driver_address if owner.log_to_driver else ""
            self._out.append(LabelOutput(worker.worker_id, request.job_id, request.name, address))
        self.count("leases_granted")
        if lease.owner_id:
            self._answer_grant(lease, worker)
        else:
            self.on_detached_granted(lease, worker)

    def repeat(self, lease: Lease) -> None:
        """The same request again: idempotent by lease id, one grant in each session."""
        worker = self.pool.get(lease.worker_id)
        owner = self._owners.get(lease.owner_id)
        if lease.state == LeaseState.GRANTED and worker is not None:
            if owner is not None and lease.answered_in != owner.session:
                self._answer_grant(lease, worker)
        elif lease.state == LeaseState.ENDING:
            self.fail_id(
                lease.owner_id, lease.lease_id, a.LEASE_FAILURE_CANCELLED, "the lease is ending"
            )
        elif lease.infeasible:
            message = "no node can hold it now"
            item = answers.pending(lease.lease_id, infeasible=True, message=message)
            self._out.append(SendToOwner(lease.owner_id, item))

    def fail_id(
        self, owner_id: bytes, lease_id: bytes, reason: a.LeaseFailure.ValueType, message: str
    ) -> None:
        """Answers that a lease will not be granted."""
        self.count("leases_failed")
        self._out.append(SendToOwner(owner_id, answers.failed(lease_id, reason, message)))

    def fail(self, lease: Lease, reason: a.LeaseFailure.ValueType, message: str) -> None:
        """Ends a lease that has no worker yet, and says why."""
        self.drop(lease)
        if lease.owner_id:
            self.fail_id(lease.owner_id, lease.lease_id, reason, message)
        else:
            self.on_detached_failed(lease, reason, message)

    def drop(self, lease: Lease) -> None:
        """Ends a lease that has no worker: out of its line, its room is free."""
        if lease.state == LeaseState.WAITING:
            self.unqueue(lease)
            self.forget(lease)
            return
        assert lease.state == LeaseState.STARTING, f"lease {lease.lease_id.hex()} has a worker"
        self.pool.not_wanted(lease)
        self.release(lease)

    def release(self, lease: Lease) -> None:
        """The lease is over: its room is free and it leaves the books."""
        pool, bundle = lease.pool, lease.bundle
        assert pool is not None
        freed = pool.release(lease.lease_id)
        lease.pool = None
        self._owing.pop(lease.lease_id, None)
        self.forget(lease)
        if bundle is not None:
            self.bundle_changes += 1
        elif freed:
            self._out.append(ReportSnapshot())
        self.freed(pool, freed, lease.shape.group_id)
        if bundle is not None and bundle.returning and not pool.grants:
            self.on_bundle_emptied(bundle)

    def freed(self, pool: ResourcePool, freed: Mapping[str, int], group_id: bytes = b"") -> None:
        """Something became free in a pool (of the node, or of a group's bundle).

        First those get it who lent theirs, then those who wait: in `AgentCore.settle`, so that one
        frame of returns makes one pass.
        """
        for lease in [x for x in self._owing.values() if x.pool is pool]:
            if not pool.take_back(lease.lease_id):
                break
            del self._owing[lease.lease_id]
            self.bundle_changes += lease.bundle is not None
        if freed:
            self.freed_now.append((group_id, dict(freed)))

    def blocked(self, lease: Lease) -> None:
        """Its worker waits in get(): the CPUs are free meanwhile."""
        if lease.state != LeaseState.GRANTED or lease.blocked or lease.pool is None:
            return
        lease.blocked = True
        if lease.lease_id in self._owing:
            del self._owing[lease.lease_id]
            return
        freed = lease.pool.lend(lease.lease_id, BLOCKED_RESOURCE)
        if freed:
            self._lent_or_taken_back(lease)
            self.freed(lease.pool, freed, lease.shape.group_id)

    def unblocked(self, lease: Lease) -> None:
        """Its worker goes on at once; CPUs that others have meanwhile are owed until free."""
        if not lease.blocked:
            return
        lease.blocked = False
        if lease.pool is None or not lease.pool.owes(lease.lease_id):
            return
        if lease.pool.take_back(lease.lease_id):
            self._lent_or_taken_back(lease)
        else:
            self._owing[lease.lease_id] = lease

    def _lent_or_taken_back(self, lease: Lease) -> None:
        if lease.bundle is None:
            self._out.append(ReportSnapshot())
        else:
            self.bundle_changes += 1

    def _answer_grant(self, lease: Lease, worker: Worker) -> None:
        assert lease.pool is not None
        owner = self._owners.get(lease.owner_id)
        if owner is not None:
            lease.answered_in = owner.session
        allotment = lease.pool.grants[lease.lease_id]
        item = answers.grant(lease, worker, self._facts.node_id, allotment)
        self._out.append(SendToOwner(lease.owner_id, item))

    def forget(self, lease: Lease) -> None:
        """The lease leaves the books; it holds nothing and waits nowhere."""
        del self.leases[lease.lease_id]
        owner = self._owners.get(lease.owner_id)
        if owner is not None:
            owner.lease_ids.pop(lease.lease_id, None)
            if not owner.connected and not owner.lease_ids and not owner.is_home:
                self._owners.forget(owner.owner_id)

    def _ask_back(self, now_ms: int) -> None:
        if now_ms - self._last_give_back_ms < limits.GIVE_BACK_INTERVAL_MS:
            return
        self._last_give_back_ms = now_ms
        for owner in self._owners.rows():
            if owner.connected and owner.lease_ids:
                item = a.LeaseItem(give_back=a.GiveBack())
                self._out.append(SendToOwner(owner.owner_id, item, "give_back"))
