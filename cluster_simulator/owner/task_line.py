"""Plain tasks of one shape: the real task pool decides, this carries out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import types_pb2 as t
from cluster_common.resources import RESOURCE_UNIT
from cluster_simulator import costs
from driver_client import limits
from driver_client.core.call import CallRecord, CallTemplate
from driver_client.core.task_pool import LeasedWorker, TaskPool
from driver_client.objects.entry import Entry

if TYPE_CHECKING:
    from cluster_simulator.owner.owner_process import OwnerProcess

_ASK_AGAIN_US = 50_000


class TaskLine:
    """Tasks that each hold `cpus` for `task_us`."""

    def __init__(self, owner: OwnerProcess, cpus: int, task_us: int) -> None:
        self._owner = owner
        self._resources = t.ResourceSet(amounts={"CPU": cpus * RESOURCE_UNIT})
        self._task_us = task_us
        self._template = CallTemplate(call_name="task", max_retries=-1)
        self._pool = TaskPool()
        self._addresses: dict[bytes, str] = {}
        self._running: dict[bytes, list[CallRecord]] = {}
        self._sequence = 0
        self._lingers = False
        self.done = 0

    @property
    def waiting(self) -> int:
        """Tasks that are not over."""
        running = sum(len(batch) for batch in self._running.values())
        return len(self._pool.queue) + running

    def submit(self, count: int) -> None:
        """That many more tasks."""
        owner = self._owner
        for _ in range(count):
            self._sequence += 1
            entry = Entry(self._sequence, owner.owner_id, owner.address)
            self._pool.queue.append((self._sequence, self._template, b"", entry, None))
        self._pump()

    def _pump(self) -> None:
        pool = self._pool
        for worker in list(pool.leases.values()):
            self._push(worker)
        for _ in range(pool.requests_wanted()):
            lease_id = self._owner.next_id()
            pool.requested[lease_id] = None
            self._owner.leases.request(self._request(lease_id), self)

    def _request(self, lease_id: bytes) -> a.LeaseRequest:
        return a.LeaseRequest(
            lease_id=lease_id,
            job_id=self._owner.job_id,
            resources=self._resources,
            placement_resources=self._resources,
            strategy=a.SCHEDULING_STRATEGY_DEFAULT,
            bundle_index=-1,
        )

    def _push(self, worker: LeasedWorker) -> None:
        batch = self._pool.take_for(worker)
        if batch:
            self._running.setdefault(worker.lease_id, []).extend(batch)
            took_us = self._task_us * len(batch) + costs.CALL_US
            self._owner.later(took_us, self._results, worker, batch)

    def _feed(self, worker: LeasedWorker) -> None:
        self._push(worker)
        pool = self._pool
        if worker.draining and worker.in_flight == 0:
            self._forget(worker.lease_id)
            self._owner.leases.give_back(worker.lease_id, reason="its node drains")
            self._pump()
            return
        if pool.queue:
            return
        for lease_id in pool.requests_unwanted():
            self._owner.leases.cancel(lease_id)
        if worker.in_flight == 0:
            worker.idle_since_ms = self._owner.heap.now_ms
            if not self._lingers:
                self._lingers = True
                self._owner.later(limits.LEASE_LINGER_MS * 1_000, self._linger_over)

    def _results(self, worker: LeasedWorker, batch: list[CallRecord]) -> None:
        lease_id = worker.lease_id
        running = self._running.get(lease_id)
        if running is None or self._pool.leases.get(lease_id) is not worker:
            return
        process = self._owner.world.workers.get(self._addresses[lease_id])
        if process is None or process.lease_id != lease_id:
            return  # it ended under the tasks; its agent will say so
        del running[: len(batch)]
        self.done += len(batch)
        self._pool.finished(worker, len(batch), self._task_us * len(batch))
        self._feed(worker)

    def _linger_over(self) -> None:
        self._lingers = False
        before_ms = self._owner.heap.now_ms - limits.LEASE_LINGER_MS
        for lease_id in self._pool.idle_leases(before_ms):
            self._forget(lease_id)
            self._owner.leases.give_back(lease_id, reason="idle")
        if any(one.idle_since_ms is not None for one in self._pool.leases.values()):
            self._lingers = True
            self._owner.later(limits.LEASE_LINGER_MS * 1_000, self._linger_over)

    def _forget(self, lease_id: bytes) -> None:
        self._pool.leases.pop(lease_id, None)
        self._running.pop(lease_id, None)
        self._addresses.pop(lease_id, None)

    # ---- LeaseHolder

    def lease_granted(self, grant: a.LeaseGrant) -> None:
        """A worker."""
        self._addresses[grant.lease_id] = grant.worker_address
        worker = self._pool.granted(grant.lease_id)
        self._feed(worker)
        self._pump()

    def lease_failed(self, failed: a.LeaseFailed) -> None:
        """Asks again, whatever it was: nothing here is impossible for ever."""
        self._pool.requested.pop(failed.lease_id, None)
        self._owner.later(_ASK_AGAIN_US, self._pump)

    def lease_pending(self, pending: a.LeasePending) -> None:
        """It waits."""

    def lease_moved(self) -> None:
        """It waits elsewhere."""

    def lease_idle(self, lease_id: bytes) -> bool:
        """Gives an idle lease up for others."""
        worker = self._pool.leases.get(lease_id)
        if worker is None or worker.idle_since_ms is None:
            return False
        self._forget(lease_id)
        return True

    def lease_draining(self, lease_id: bytes) -> None:
        """Nothing more goes there."""
        worker = self._pool.leases.get(lease_id)
        if worker is not None:
            worker.draining = True
            self._feed(worker)

    def worker_ended(self, ended: a.LeasedWorkerEnded) -> None:
        """What was in flight is tried again."""
        unfinished = self._running.get(ended.lease_id, [])
        self._forget(ended.lease_id)
        again = [record for record in unfinished if self._pool.use_attempt(record)]
        self._pool.gave_back(again, None)
        self._pump()
