"""Worker processes by state, and which of them serves which lease.

A lease that has its room waits here for a worker of its environment. Starting workers are promised
to
nobody: whoever registers serves the lease that waits longest. A worker that served a job serves
only that job afterwards (its loaded code belongs to it); one that served an actor serves nobody.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import msgspec

from cluster_api.v1 import agent_pb2 as a
from raylet_agent import limits
from raylet_agent.core.effects import Effect, KillWorker, SendToWorker, SpawnWorker
from raylet_agent.core.environments import Environments
from raylet_agent.core.lease import Lease
from raylet_agent.core.runtime_env import canonical
from raylet_agent.core.timers import Timers

REFILL = "refill"
REGISTER = "register"
EXIT_GRACE = "exit_grace"
TRIM = "trim"


class WorkerState(enum.IntEnum):
    """STARTING until it registered; IDLE waits for a lease; EXITING was told to end."""

    STARTING = 1
    IDLE = 2
    LEASED = 3
    EXITING = 4


class Worker(msgspec.Struct):
    """One worker process. `end_cause` is set by whoever decided its end."""

    worker_id: bytes
    env_text: str
    state: WorkerState = WorkerState.STARTING
    pid: int = 0
    address: str = ""
    lease_id: bytes = b""
    job_id: bytes = b""
    idle_since_ms: int = 0
    registered: bool = False
    end_cause: int = 0
    end_message: str = ""


class WorkerPool:
    """All workers of the node.

    Args:
        out: where effects go.
        timers: the core's deadlines.
        new_id: source of worker ids.
        ahead: workers kept forked ahead once somebody asked for a lease.
        matched: told when a lease got its worker.
    """

    def __init__(
        self,
        out: list[Effect],
        timers: Timers,
        new_id: Callable[[], bytes],
        ahead: int,
        matched: Callable[[Lease, Worker], None],
    ) -> None:
        self._out = out
        self._timers = timers
        self._new_id = new_id
        self._ahead = ahead
        self._matched = matched
        self._workers: dict[bytes, Worker] = {}
        self.environments = Environments(out)
        self._waiting: dict[str, dict[bytes, Lease]] = {}
        self._starting: dict[str, dict[bytes, None]] = {}
        self._idle: dict[bytes, Worker] = {}
        self._used = False
        self._filling = False
        self.started = 0
        self.start_failures = 0

    def __len__(self) -> int:
        return len(self._workers)

    def rows(self) -> list[Worker]:
        """All workers in order of their start."""
        return list(self._workers.values())

    def get(self, worker_id: bytes) -> Worker | None:
        """One worker."""
        return self._workers.get(worker_id)

    @property
    def waiting(self) -> int:
        """Leases that have room and wait for a worker."""
        return sum(len(line) for line in self._waiting.values())

    def prestart(self) -> None:
        """Forks ahead up to the target before anybody asks, as fast as starts may be in flight."""
        self._used = self._filling = True
        self.refill()

    def want(self, lease: Lease, now_ms: int) -> None:
        """Finds or starts a worker; `matched` is called now or later."""
        env_text = canonical(lease.request.runtime_env_json)
        self._used = True
        self._timers.set(REFILL, b"", now_ms + limits.REFILL_QUIET_MS)
        worker = self._find_idle(env_text, lease.request.job_id)
        if worker is not None:
            self._match(lease, worker)
            return
        self._waiting.setdefault(env_text, {})[lease.lease_id] = lease
        if env_text:
            detached = b"" if lease.owner_id else lease.request.actor_id
            text = lease.request.runtime_env_json
            self.environments.want(text, lease.request.job_id, detached)
        self._top_up()

    def not_wanted(self, lease: Lease) -> None:
        """A lease that waited for a worker does so no more."""
        env_text = canonical(lease.request.runtime_env_json)
        self._waiting.get(env_text, {}).pop(lease.lease_id, None)
        self._let_go(env_text)

    def environment_made(self, env_text: str) -> None:
        """Workers of it may start."""
        if self.environments.made(env_text):
            self._top_up()
            self._let_go(env_text)

    def environment_failed(self, env_text: str) -> list[Lease]:
        """It cannot be made; the leases that waited for it do so no more."""
        self.environments.failed(env_text)
        leases = list(self._waiting.pop(env_text, {}).values())
        self._let_go(env_text)
        return leases

    def spawned(self, worker_id: bytes, pid: int, now_ms: int) -> None:
        """The fork server made the process."""
        worker = self._workers.get(worker_id)
        if worker is not None:
            worker.pid = pid
            self._timers.set(REGISTER, worker_id, now_ms + limits.WORKER_REGISTER_TIMEOUT_MS)

    def registered(self, worker_id: bytes, pid: int, address: str, now_ms: int) -> Worker | None:
        """A worker opened its link; None if it is not ours or should be gone."""
        worker = self._workers.get(worker_id)
        if worker is None or worker.state != WorkerState.STARTING:
            return None
        worker.pid, worker.address, worker.registered = pid, address, True
        self._timers.cancel(REGISTER, worker_id)
        self._starting[worker.env_text].pop(worker_id, None)
        self._offer(worker, now_ms)
        self._top_up()
        if self._filling:
            self.refill()
        return worker

    def reusable(self, worker: Worker, now_ms: int) -> None:
        """Its lease ended and it lives on."""
        worker.lease_id = b""
        self._offer(worker, now_ms)

    def stop(
        self, worker: Worker, cause: int, message: str, now_ms: int, *, graceful: bool = False
    ) -> None:
        """Ends a worker; the first cause given stays."""
        if not worker.end_cause:
            worker.end_cause, worker.end_message = cause, message
        self._idle.pop(worker.worker_id, None)
        self._starting.get(worker.env_text, {}).pop(worker.worker_id, None)
        if graceful and worker.registered:
            if worker.state != WorkerState.EXITING:
                order = a.WorkerCommand(exit=a.ExitWorker(graceful=True, reason=message))
                self._out.append(SendToWorker(worker.worker_id, order))
                due = now_ms + limits.WORKER_EXIT_GRACE_MS
                self._timers.set(EXIT_GRACE, worker.worker_id, due)
        else:
            self._out.append(KillWorker(worker.worker_id))
        worker.state = WorkerState.EXITING

    def ended(self, worker_id: bytes) -> Worker | None:
        """The process is gone; its row goes."""
        worker = self._workers.pop(worker_id, None)
        if worker is None:
            return None
        self._idle.pop(worker_id, None)
        self._starting.get(worker.env_text, {}).pop(worker_id, None)
        for kind in (REGISTER, EXIT_GRACE):
            self._timers.cancel(kind, worker_id)
        self._let_go(worker.env_text)
        return worker

    def _let_go(self, env_text: str) -> None:
        """Nobody needs an environment any more, if that is so."""
        if not env_text or self._waiting.get(env_text) or self.environments.is_plain(env_text):
            return
        if not any(worker.env_text == env_text for worker in self._workers.values()):
            self.environments.unused(env_text)

    def start_failed(self, worker: Worker) -> Lease | None:
        """A worker ended before it registered.

        Returns:
            The lease that has now seen too many of these; it does not wait any more.
        """
        self.start_failures += 1
        failed: Lease | None = None
        line = self._waiting.get(worker.env_text, {})
        if line:
            lease = next(iter(line.values()))
            lease.start_failures += 1
            if lease.start_failures >= limits.WORKER_START_TRIES_MAX:
                failed = line.pop(lease.lease_id)
        return failed

    def top_up(self, now_ms: int) -> None:
        """Starts workers for leases that wait; in quiet times some ahead."""
        self._top_up()
        if self._used and not self.waiting:
            self._timers.set_if_absent(REFILL, b"", now_ms + limits.REFILL_QUIET_MS)

    def refill(self) -> None:
        """Forks ahead up to the target, unless somebody waits."""
        if self.waiting or not self._used:
            return
        fresh = sum(1 for w in self._idle.values() if not w.job_id and not w.env_text)
        missing = self._ahead - fresh - len(self._starting.get("", {}))
        self._filling = self._filling and missing > 0
        for _ in range(missing):
            if not self._spawn(""):
                return

    def job_ended(self, job_id: bytes, now_ms: int) -> None:
        """Idle workers that only served this job are of no use any more."""
        for worker in [w for w in self._idle.values() if w.job_id == job_id]:
            self.stop(worker, a.WORKER_END_CAUSE_EXITED, "its job ended", now_ms)

    def trim(self, now_ms: int) -> None:
        """Ends workers that were idle for too long, beyond the target."""
        excess = len(self._idle) - self._ahead
        for worker in list(self._idle.values())[: max(0, excess)]:
            if now_ms - worker.idle_since_ms < limits.WORKER_IDLE_LINGER_MS:
                break
            cause = a.WORKER_END_CAUSE_EXITED
            self.stop(worker, cause, "idle for too long", now_ms, graceful=True)
        self._watch_idle()

    def _offer(self, worker: Worker, now_ms: int) -> None:
        line = self._waiting.get(worker.env_text, {})
        for lease in line.values():
            if not worker.job_id or worker.job_id == lease.request.job_id:
                del line[lease.lease_id]
                self._match(lease, worker)
                return
        worker.state = WorkerState.IDLE
        worker.idle_since_ms = now_ms
        self._idle[worker.worker_id] = worker
        self._watch_idle()

    def _match(self, lease: Lease, worker: Worker) -> None:
        worker.state = WorkerState.LEASED
        worker.lease_id = lease.lease_id
        worker.job_id = lease.request.job_id
        lease.worker_id = worker.worker_id
        self._matched(lease, worker)

    def _find_idle(self, env_text: str, job_id: bytes) -> Worker | None:
        """The warmest that knows the job, else a fresh one."""
        fresh: Worker | None = None
        for worker in reversed(self._idle.values()):
            if worker.env_text != env_text:
                continue
            if worker.job_id == job_id:
                fresh = worker
                break
            if not worker.job_id and fresh is None:
                fresh = worker
        if fresh is not None:
            del self._idle[fresh.worker_id]
        return fresh

    def _top_up(self) -> None:
        for env_text in list(self._waiting):
            line = self._waiting[env_text]
            if not line:
                del self._waiting[env_text]
                continue
            if env_text and not self.environments.is_ready(env_text):
                continue
            while len(self._starting.get(env_text, {})) < len(line):
                if not self._spawn(env_text):
                    return

    def _spawn(self, env_text: str) -> bool:
        in_flight = sum(len(each) for each in self._starting.values())
        if in_flight >= limits.WORKER_STARTS_IN_FLIGHT_MAX:
            return False
        if len(self._workers) >= limits.WORKERS_MAX:
            return False
        worker = Worker(self._new_id(), env_text)
        self._workers[worker.worker_id] = worker
        self._starting.setdefault(env_text, {})[worker.worker_id] = None
        self.started += 1
        self._out.append(SpawnWorker(worker.worker_id, env_text))
        return True

    def _watch_idle(self) -> None:
        if len(self._idle) > self._ahead:
            oldest = next(iter(self._idle.values()))
            due = oldest.idle_since_ms + limits.WORKER_IDLE_LINGER_MS
            self._timers.set_if_absent(TRIM, b"", due)
