"""How leases, workers and owners end: returned, cancelled, exited, crashed, killed, abandoned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_common.runtime_packages import RUNTIME_ENV_FAILED
from cluster_common.worker_start import SETUP_FAILED_STATUS
from raylet_agent import limits
from raylet_agent.core import answers
from raylet_agent.core.effects import (
    Effect,
    JobEnded,
    ProbeOwner,
    SendToGcs,
    SendToOwner,
    SendToWorker,
)
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.lease import Lease, LeaseState
from raylet_agent.core.leasing import Leasing
from raylet_agent.core.node_views import NodeViews
from raylet_agent.core.owners import Owner, OwnerTable
from raylet_agent.core.timers import Timers
from raylet_agent.core.worker_pool import Worker

OWNER_REOPEN = "owner_reopen"
OWNER_PROBE = "owner_probe"
OWNER_AWAY = "owner_away"
_OWNER_TIMERS = (OWNER_REOPEN, OWNER_PROBE, OWNER_AWAY)


class Endings:
    """Ends of leases and owners. The hooks `on_...` are set by the composition."""

    def __init__(
        self,
        facts: NodeFacts,
        owners: OwnerTable,
        leasing: Leasing,
        views: NodeViews,
        timers: Timers,
        out: list[Effect],
    ) -> None:
        self._facts = facts
        self._owners = owners
        self._leasing = leasing
        self._views = views
        self._timers = timers
        self._out = out
        self.on_detached_ended: Callable[[Lease, Worker, int], None]
        self.on_cancelled_elsewhere: Callable[[bytes, int], None]

    # ---- leases

    def returned(self, owner_id: bytes, item: a.LeaseReturn, now_ms: int) -> None:
        """The owner gives leases back."""
        for lease_id in item.lease_ids:
            self._views.undo(lease_id)
            lease = self._leasing.leases.get(lease_id)
            if lease is not None and lease.owner_id == owner_id:
                self._return_one(lease, item, now_ms)

    def cancelled(self, owner_id: bytes, lease_ids: Sequence[bytes], now_ms: int) -> None:
        """The owner does not want these any more; a grant that crossed the cancel is taken back."""
        for lease_id in lease_ids:
            self._views.undo(lease_id)
            lease = self._leasing.leases.get(lease_id)
            if lease is None:
                self._leasing.cancelled.add(lease_id, now_ms)
                self.on_cancelled_elsewhere(lease_id, now_ms)
                continue
            if lease.owner_id != owner_id or lease.state == LeaseState.ENDING:
                continue
            if lease.state == LeaseState.GRANTED:
                self._return_one(lease, a.LeaseReturn(reason="cancelled"), now_ms)
            else:
                self._leasing.drop(lease)
            reason = a.LEASE_FAILURE_CANCELLED
            self._leasing.fail_id(owner_id, lease_id, reason, "cancelled by its owner")

    def _return_one(self, lease: Lease, item: a.LeaseReturn, now_ms: int) -> None:
        if lease.state in (LeaseState.WAITING, LeaseState.STARTING):
            self._leasing.drop(lease)
            return
        worker = self._leasing.pool.get(lease.worker_id)
        assert worker is not None, f"lease {lease.lease_id.hex()} has lost its worker"
        if lease.state == LeaseState.ENDING:
            if item.kill_worker and not item.graceful:
                self._leasing.pool.stop(worker, a.WORKER_END_CAUSE_KILLED, item.reason, now_ms)
            return
        used_up = item.kill_worker or lease.is_actor or worker.end_cause != 0
        if used_up:
            lease.state = LeaseState.ENDING
            cause = a.WORKER_END_CAUSE_KILLED if item.kill_worker else a.WORKER_END_CAUSE_EXITED
            self._leasing.pool.stop(
                worker, cause, item.reason or "returned", now_ms, graceful=item.graceful
            )
            return
        end = a.WorkerCommand(lease_end=a.LeaseEnd(lease_id=lease.lease_id))
        self._out.append(SendToWorker(worker.worker_id, end))
        self._leasing.release(lease)
        self._leasing.pool.reusable(worker, now_ms)

    # ---- workers

    def worker_exiting(self, worker_id: bytes, item: a.WorkerExiting) -> None:
        """The worker announced its end; it takes no further lease, and goes when it is heard."""
        worker = self._leasing.pool.get(worker_id)
        if worker is None:
            return
        self._out.append(SendToWorker(worker_id, a.WorkerCommand(exit_noted=a.ExitNoted())))
        if worker.end_cause:
            return
        intended = item.intended
        worker.end_cause = a.WORKER_END_CAUSE_EXITED if intended else a.WORKER_END_CAUSE_CRASHED
        worker.end_message = item.reason

    def worker_ended(self, worker_id: bytes, exit_code: int, tail: str, now_ms: int) -> None:
        """The process is gone.

        Args:
            worker_id: which.
            exit_code: its status, negative for a signal.
            tail: end of its standard error, for messages.
            now_ms: monotonic time.
        """
        pool = self._leasing.pool
        worker = pool.ended(worker_id)
        if worker is None:
            return
        if not worker.end_cause:
            worker.end_cause = a.WORKER_END_CAUSE_CRASHED
            worker.end_message = _how_it_ended(exit_code)
        lease = self._leasing.leases.get(worker.lease_id)
        if lease is not None and lease.worker_id == worker_id:
            # An owner may ask again under the id of a lease whose worker is still on its way out.
            self._lease_lost(lease, worker, exit_code)
        elif not worker.registered and worker.end_cause == a.WORKER_END_CAUSE_CRASHED:
            self._start_failed(worker, exit_code, tail)
        if self._owners.get(worker_id) is not None:
            self.owner_died(worker_id, f"its worker process ended: {worker.end_message}", now_ms)
        pool.top_up(now_ms)

    def _lease_lost(self, lease: Lease, worker: Worker, exit_code: int) -> None:
        returned = lease.state == LeaseState.ENDING
        lease.state = LeaseState.ENDING
        self._leasing.release(lease)
        if not lease.owner_id:
            self.on_detached_ended(lease, worker, exit_code)
        elif not returned:
            item = answers.worker_ended(lease, worker, exit_code, self._facts.node_id)
            self._out.append(SendToOwner(lease.owner_id, item))

    def _start_failed(self, worker: Worker, exit_code: int, tail: str) -> None:
        if exit_code == SETUP_FAILED_STATUS:
            message = f"its worker_process_setup_hook failed: {tail}"
            self.environment_failed(worker.env_text, message)
            return
        failed = self._leasing.pool.start_failed(worker)
        if failed is None:
            return
        tries = limits.WORKER_START_TRIES_MAX
        message = f"{tries} workers ended before they were ready: {worker.end_message}"
        if tail:
            message += f"; their last words: {tail}"
        self._leasing.fail(failed, a.LEASE_FAILURE_WORKER_START_FAILED, message)

    def environment_failed(self, env_text: str, message: str) -> None:
        """A runtime environment cannot be had here: what waits for a worker of it fails."""
        message = RUNTIME_ENV_FAILED + message
        for lease in self._leasing.pool.environment_failed(env_text):
            self._leasing.fail(lease, a.LEASE_FAILURE_RUNTIME_ENV_FAILED, message)

    # ---- owners

    def owner_closing(self, owner_id: bytes, reason: str, now_ms: int) -> None:
        """The owner ends in order. Only its home agent may take that for its death."""
        owner = self._owners.get(owner_id)
        if owner is not None and owner.is_home:
            self.owner_died(owner_id, reason or "it ended", now_ms)

    def session_lost(self, owner_id: bytes, now_ms: int) -> None:
        """The owner's session broke.

        A worker's process is watched anyway. For others, look at once whether somebody still
        listens: a refused connection means that the process is gone.
        """
        owner = self._owners.get(owner_id)
        if owner is None:
            return
        owner.connected = False
        if owner.is_home and self._leasing.pool.get(owner_id) is not None:
            return
        if not owner.is_home and not owner.lease_ids:
            self._owners.forget(owner_id)
            return
        if owner.is_home:
            self._timers.set(OWNER_REOPEN, owner_id, now_ms + limits.OWNER_REOPEN_MS)
        self._timers.set(OWNER_AWAY, owner_id, now_ms + limits.OWNER_AWAY_MS)
        self._out.append(ProbeOwner(owner_id, owner.address))

    def session_opened(self, owner: Owner, held: Sequence[bytes], now_ms: int) -> list[bytes]:
        """A session began.

        Grants the owner does not know of were lost on the way: they are given back, the owner asks
        again under the same ids.

        Returns:
            Leases it named that are not here.
        """
        for kind in _OWNER_TIMERS:
            self._timers.cancel(kind, owner.owner_id)
        named = set(held)
        for lease_id in list(owner.lease_ids):
            if lease_id not in named:
                self._return_one(self._leasing.leases[lease_id], a.LeaseReturn(), now_ms)
        return [lease_id for lease_id in held if lease_id not in owner.lease_ids]

    def reopen_expired(self, owner_id: bytes) -> None:
        """The home session did not come back in time, and nobody refused.

        Perhaps only the way between here and the driver is cut: the GCS asks the driver, and says
        `owners_died` if it gets no answer either.
        """
        owner = self._owners.get(owner_id)
        if owner is None or owner.connected:
            return
        owner.suspected = True
        self._tell_gcs(owner, "its connection to its agent broke", suspected=True)

    def away_expired(self, owner_id: bytes, now_ms: int) -> None:
        """An owner that may live did not come back here: it has given up its leases long ago."""
        owner = self._owners.get(owner_id)
        if owner is None or owner.connected:
            return
        away_s = limits.OWNER_AWAY_MS // 1_000
        self._end_all_of(owner, f"its owner did not come back within {away_s} s", now_ms)
        self._timers.cancel(OWNER_PROBE, owner_id)
        self._owners.forget(owner_id)

    def probe_due(self, owner_id: bytes) -> None:
        """Time to look whether the owner still listens."""
        owner = self._owners.get(owner_id)
        if owner is not None and not owner.connected and (owner.is_home or owner.lease_ids):
            self._out.append(ProbeOwner(owner_id, owner.address))

    def probed(self, owner_id: bytes, *, refused: bool, now_ms: int) -> None:
        """The answer: a refused connection means that its process is gone."""
        owner = self._owners.get(owner_id)
        if owner is None or owner.connected:
            return
        if refused:
            self.owner_died(owner_id, f"nobody listens at {owner.address} any more", now_ms)
            return
        # A process that is being killed may close its streams before it stops to listen.
        soon = owner.is_home and not owner.suspected
        again_ms = limits.OWNER_HOME_PROBE_MS if soon else limits.OWNER_PROBE_MS
        self._timers.set(OWNER_PROBE, owner_id, now_ms + again_ms)

    def owner_died(self, owner_id: bytes, message: str, now_ms: int) -> None:
        """This agent found out: everything it leased here ends, the GCS tells the others."""
        owner = self.owner_gone(owner_id, message, now_ms)
        if owner is not None:
            self._tell_gcs(owner, message, suspected=False)

    def _tell_gcs(self, owner: Owner, message: str, *, suspected: bool) -> None:
        ended = n.OwnerEnded(
            owner_id=owner.owner_id,
            job_id=owner.job_id,
            is_driver=owner.is_driver,
            message=message,
            suspected=suspected,
        )
        self._out.append(SendToGcs(n.AgentItem(owner_ended=ended)))

    def owner_gone(self, owner_id: bytes, message: str, now_ms: int) -> Owner | None:
        """Ends everything a dead owner leased here; later requests of it are refused."""
        for kind in _OWNER_TIMERS:
            self._timers.cancel(kind, owner_id)
        owner = self._owners.get(owner_id)
        if owner is not None:
            self._end_all_of(owner, f"its owner died: {message}", now_ms)
        for lease_id in self._views.deducted():
            if lease_id.startswith(owner_id):
                self._views.undo(lease_id)
        if owner is not None and owner.is_driver:
            self._leasing.pool.job_ended(owner.job_id, now_ms)
            self._out.append(JobEnded(owner.job_id))
        return self._owners.bury(owner_id, now_ms)

    def _end_all_of(self, owner: Owner, message: str, now_ms: int) -> None:
        for lease_id in list(owner.lease_ids):
            self._abandon(self._leasing.leases[lease_id], message, now_ms)

    def _abandon(self, lease: Lease, message: str, now_ms: int) -> None:
        if lease.state in (LeaseState.WAITING, LeaseState.STARTING):
            self._leasing.drop(lease)
            return
        worker = self._leasing.pool.get(lease.worker_id)
        assert worker is not None, f"lease {lease.lease_id.hex()} has lost its worker"
        lease.state = LeaseState.ENDING
        cause = a.WORKER_END_CAUSE_OWNER_DIED
        self._leasing.pool.stop(worker, cause, message, now_ms)


def _how_it_ended(exit_code: int) -> str:
    if exit_code < 0:
        return f"killed by signal {-exit_code}"
    return f"exited with status {exit_code}"
