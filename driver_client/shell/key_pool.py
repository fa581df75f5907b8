"""One task pool carried out: asks for leases, pushes tasks, completes entries or repeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cluster_api.v1 import agent_pb2 as agent_pb
from cluster_api.v1 import core_worker_pb2 as pb
from cluster_common import ids
from cluster_common.transport.logs import get_logger
from driver_client import exceptions, limits
from driver_client.core import lease_rules as rules
from driver_client.core.call import CallRecord
from driver_client.core.scheduling_key import SchedulingKey
from driver_client.core.task_pool import LeasedWorker, TaskPool
from driver_client.objects import entry as entries
from driver_client.shell.backlog_teller import BacklogTeller
from driver_client.shell.bundle_router import BundleRouter
from driver_client.shell.lease_client import LeaseClient
from driver_client.shell.owner_services import OwnerServices
from driver_client.shell.peer_connection import PeerConnection
from driver_client.shell.worker_loss import WorkerLoss

log = get_logger()


class _Worker:
    __slots__ = ("connection", "core", "loss")

    def __init__(self, core: LeasedWorker, connection: PeerConnection, loss: WorkerLoss) -> None:
        self.core = core
        self.connection = connection
        self.loss = loss


class KeyPool:
    """One pool's shell: the listener of its workers' streams and the holder of its leases."""

    def __init__(
        self,
        key: SchedulingKey,
        services: OwnerServices,
        leases: LeaseClient,
        router: BundleRouter,
        retire: Callable[[KeyPool], None],
    ) -> None:
        self.key = key
        self.retired = False
        self._services = services
        self._leases = leases
        self._router = router
        self._retire = retire
        self._core = TaskPool()
        number = ids.sequence_of(services.next_id())
        self._backlog = BacklogTeller(key, number, self._core, leases)
        self._workers: dict[bytes, _Worker] = {}
        self._by_connection: dict[PeerConnection, _Worker] = {}
        self._linger: asyncio.TimerHandle | None = None
        self._warned = False

    def task_count(self) -> int:
        """Tasks queued or in flight."""
        in_flight = sum(worker.core.in_flight for worker in self._workers.values())
        return len(self._core.queue) + in_flight

    def add(self, records: list[CallRecord]) -> None:
        """Queues tasks."""
        self._core.queue.extend(records)
        self._pump()

    def cancel(self, sequence: int, *, force: bool, recursive: bool) -> bool:
        """Cancels a task; whether it is queued or in flight here."""
        record = self._core.take_out(sequence)
        if record is not None:
            self._services.cancel_record(record)
            if not self._core.queue:
                self._leases.cancel(self._core.requests_unwanted())
            self._backlog.changed()
            self._maybe_retire()
            return True
        for worker in self._workers.values():
            if worker.connection.cancel(sequence, force=force, recursive=recursive):
                self._core.cancelled(sequence)
                return True
        return False

    def _pump(self) -> None:
        core = self._core
        if core.queue:
            for worker in sorted(self._workers.values(), key=lambda w: w.core.in_flight):
                batch = core.take_for(worker.core)
                if batch:
                    worker.connection.send(batch)
                if not core.queue:
                    break
        for _ in range(core.requests_wanted()):
            self._request()
        self._backlog.changed()

    def _request(self) -> None:
        lease_id = self._services.next_id()
        request = self.key.lease_request(lease_id)
        self._core.requested[lease_id] = None
        if request.placement_group_id:
            self._router.route(request, self, lambda: lease_id in self._core.requested)
        else:
            self._leases.request(request, self, self._backlog.stamp(request))

    # ---- leases

    def lease_granted(self, grant: agent_pb.LeaseGrant) -> None:
        """Opens the stream to the worker and gives it work."""
        core = self._core.granted(grant.lease_id)
        connection = self._services.connect(
            grant.worker_address, grant.worker_id, self, lease_id=grant.lease_id
        )
        loss = WorkerLoss(
            grant.lease_id,
            connection,
            self._leases,
            lambda unfinished, ended: self._worker_over(grant.lease_id, unfinished, ended),
        )
        worker = _Worker(core, connection, loss)
        self._workers[grant.lease_id] = worker
        self._by_connection[connection] = worker
        self._feed(worker)
        self._pump()

    def lease_failed(self, failed: agent_pb.LeaseFailed) -> None:
        """Fails what can never run; asks again where another answer is possible."""
        self._core.requested.pop(failed.lease_id, None)
        reason = failed.reason
        if rules.is_asked_again(reason):
            asyncio.get_running_loop().call_later(rules.ASK_AGAIN_MS / 1_000, self._pump)
            return
        error: exceptions.RayError
        if reason == agent_pb.LEASE_FAILURE_PLACEMENT_GROUP_REMOVED:
            error = exceptions.TaskPlacementGroupRemoved(failed.message)
        elif reason == agent_pb.LEASE_FAILURE_UNSCHEDULABLE:
            error = exceptions.TaskUnschedulableError(failed.message)
        elif reason == agent_pb.LEASE_FAILURE_RUNTIME_ENV_FAILED:
            error = exceptions.RuntimeEnvSetupError(failed.message)
        elif reason == agent_pb.LEASE_FAILURE_OWNER_DEAD:
            error = exceptions.RaySystemError(failed.message)
        elif reason == agent_pb.LEASE_FAILURE_WORKER_START_FAILED:
            error = exceptions.WorkerCrashedError(failed.message)
        else:
            error = exceptions.LocalRayletDiedError(failed.message)
        self.fail_queue(error)

    def lease_pending(self, pending: agent_pb.LeasePending) -> None:
        """Says once on the driver's log that this can never run on the present nodes."""
        if pending.infeasible and not self._warned:
            self._warned = True
            log.warning("task_infeasible", task=self.key.request.name, why=pending.message)

    def lease_moved(self) -> None:
        """Another agent keeps a request waiting now: it does not know what is behind it."""
        self._backlog.moved()

    def lease_idle(self, lease_id: bytes) -> bool:
        """Gives an idle lease up for others."""
        worker = self._workers.get(lease_id)
        if worker is None or worker.core.idle_since_ms is None:
            return False
        self._forget(lease_id, worker)
        return True

    def lease_draining(self, lease_id: bytes) -> None:
        """Its node goes: the worker gets nothing more, and goes back when it is idle."""
        worker = self._workers.get(lease_id)
        if worker is not None:
            worker.core.draining = True
            self._feed(worker)

    def worker_ended(self, ended: agent_pb.LeasedWorkerEnded) -> None:
        """The agent says that a leased worker is gone."""
        worker = self._workers.get(ended.lease_id)
        if worker is not None:
            worker.loss.ended(ended)

    # ---- results

    def results_arrived(self, connection: PeerConnection, count: int, busy_us: int) -> None:
        """Gives the worker more, or lets the lease linger."""
        worker = self._by_connection.get(connection)
        if worker is None:
            return
        self._core.finished(worker.core, count, busy_us)
        self._feed(worker)

    def _feed(self, worker: _Worker) -> None:
        core = self._core
        batch = core.take_for(worker.core)
        if batch:
            worker.connection.send(batch)
        if worker.core.draining and worker.core.in_flight == 0:
            self._forget(worker.core.lease_id, worker)
            self._leases.give_back(worker.core.lease_id, reason="its node drains")
            self._pump()
            self._maybe_retire()
            return
        self._backlog.changed()
        if core.queue:
            return
        if core.requested:
            self._leases.cancel(core.requests_unwanted())
        if worker.core.in_flight == 0:
            worker.core.idle_since_ms = self._services.now_ms()
            if self._linger is None:
                self._linger_later(limits.LEASE_LINGER_MS)

    def result_is_special(
        self,
        connection: PeerConnection,
        record: CallRecord,
        kind: int,
        value: bytes,
        detail: pb.ResultDetail | None,
    ) -> None:
        """Errors that may be retried are; everything else completes the entry."""
        if detail is not None and detail.worker_exiting and connection in self._by_connection:
            # It made as many calls as it may (`max_calls`) and ends.
            self._by_connection[connection].core.is_lost = True
        retry = kind == pb.RESULT_KIND_ERROR and self._services.may_retry_error(record, value)
        if retry and self._core.use_attempt(record):
            worker = self._by_connection.get(connection)
            self._core.again(record, worker.core if worker else None)
            return
        self._core.over(record)
        self._services.complete_special(connection, record, kind, value, detail)

    def calls_returned(self, connection: PeerConnection, records: list[CallRecord]) -> None:
        """Tasks behind a long one: to the front of the queue."""
        worker = self._by_connection.get(connection)
        self._core.gave_back(records, worker.core if worker else None)
        self._pump()

    def frame_extras(self, connection: PeerConnection, frame: pb.PeerReplyFrame) -> None:
        """A refusal, or answers for the ownership tables."""
        self._services.take_extras(connection, frame)

    # ---- losses

    def connection_lost(
        self, connection: PeerConnection, unfinished: list[CallRecord], message: str
    ) -> None:
        """The worker's stream broke; the cause follows from the agent."""
        worker = self._by_connection.get(connection)
        if worker is not None:
            worker.core.is_lost = True
            worker.loss.stream_lost(unfinished)
        elif unfinished:
            self._core.gave_back(unfinished, None)
            self._pump()

    def _worker_over(
        self, lease_id: bytes, unfinished: list[CallRecord], ended: agent_pb.LeasedWorkerEnded
    ) -> None:
        worker = self._workers.pop(lease_id, None)
        self._core.leases.pop(lease_id, None)
        if worker is not None:
            self._by_connection.pop(worker.connection, None)
            worker.connection.close()
        # Any of them may have run: its result can have been lost with the process.
        again: list[CallRecord] = []
        # An announced loss costs no attempt, where a second run is allowed at all.
        announced = ended.cause == agent_pb.WORKER_END_CAUSE_PREEMPTED
        # A worker that ends by itself answers everything it ran first: the rest never started.
        orderly = ended.cause == agent_pb.WORKER_END_CAUSE_EXITED
        for record in unfinished:
            repeatable = orderly or (announced and record[1].max_retries != 0)
            if repeatable or self._core.use_attempt(record):
                again.append(record)
            else:
                self._services.fail(record, _crash_error(record, ended))
        self._core.gave_back(again, None)
        self._pump()
        self._maybe_retire()

    def fail_queue(self, error: exceptions.RayError) -> None:
        """Fails every task that was not pushed yet."""
        data = exceptions.pickle_error(error)
        queue = self._core.queue
        while queue:
            record = queue.popleft()
            self._core.over(record)
            self._services.complete_all(record, data, entries.ERROR)
        self._leases.cancel(self._core.requests_unwanted())
        self._backlog.changed()
        self._maybe_retire()

    # ---- linger

    def _linger_later(self, delay_ms: float) -> None:
        loop = asyncio.get_running_loop()
        self._linger = loop.call_later(delay_ms / 1000, self._linger_over)

    def _linger_over(self) -> None:
        self._linger = None
        before_ms = self._services.now_ms() - limits.LEASE_LINGER_MS
        for lease_id in self._core.idle_leases(before_ms):
            self._forget(lease_id, self._workers[lease_id])
            self._leases.give_back(lease_id, reason="idle")
        oldest = [
            w.core.idle_since_ms for w in self._workers.values() if w.core.idle_since_ms is not None
        ]
        if oldest:
            self._linger_later(max(1, min(oldest) - before_ms))
        self._maybe_retire()

    def _forget(self, lease_id: bytes, worker: _Worker) -> None:
        del self._workers[lease_id]
        self._core.leases.pop(lease_id, None)
        self._by_connection.pop(worker.connection, None)
        worker.loss.forget()
        worker.connection.close()

    def _maybe_retire(self) -> None:
        if self._core.is_empty and self._linger is None:
            self.retired = True
            self._backlog.close()
            self._retire(self)


def _crash_error(record: CallRecord, ended: agent_pb.LeasedWorkerEnded) -> exceptions.RayError:
    what = f"task {record[1].call_name}: {ended.message or 'its worker died'}"
    node = ended.node_id.hex()
    if ended.cause == agent_pb.WORKER_END_CAUSE_NODE_DIED:
        return exceptions.NodeDiedError(f"{what} (node {node[:12]} died)", node)
    if ended.cause == agent_pb.WORKER_END_CAUSE_PREEMPTED:
        return exceptions.NodeDiedError(
            f"{what} (node {node[:12]} was preempted)", node, "PREEMPTED"
        )
    if ended.cause == agent_pb.WORKER_END_CAUSE_PLACEMENT_GROUP_REMOVED:
        return exceptions.TaskPlacementGroupRemoved(what)
    if ended.cause == agent_pb.WORKER_END_CAUSE_OUT_OF_MEMORY:
        return exceptions.OutOfMemoryError(what)
    return exceptions.WorkerCrashedError(f"{what} (exit status {ended.exit_code})", node)
