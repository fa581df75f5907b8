"""Runs the core: events in, effects out, one timer. Everything on the loop's thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_common.transport.dial import Dial, dial
from cluster_common.transport.logs import get_logger
from cluster_common.transport.outbox import Outbox, OutboxOverflowError
from cluster_common.transport.task_keeper import TaskKeeper
from cluster_common.worker_start import WorkerStart
from raylet_agent import limits
from raylet_agent.core import effects as e
from raylet_agent.core.agent import AgentCore
from raylet_agent.settings import AgentSettings
from raylet_agent.shell.ended_logs import EndedLogs
from raylet_agent.shell.environment_store import EnvironmentStore
from raylet_agent.shell.fork_client import ForkClient
from raylet_agent.shell.fork_messages import Report, Spawned
from raylet_agent.shell.fork_server import preloaded
from raylet_agent.shell.log_pusher import LogPusher
from raylet_agent.shell.session_faults import Released
from raylet_agent.shell.worker_environment import worker_environment
from raylet_agent.shell.worker_output import WorkerOutput

log = get_logger()


def now_ms() -> int:
    """Monotonic milliseconds: the time of the core."""
    return time.monotonic_ns() // 1_000_000


class Stream:
    """The sending half of one session or link, and how to end it from here."""

    def __init__(self, outbox: Outbox[Any]) -> None:
        task = asyncio.current_task()
        assert task is not None, "a stream belongs to its handler's task"
        self.outbox = outbox
        self._task = task
        self.ended_here = False

    def end(self) -> None:
        """Ends the handler, which tells the peer: gRPC sends no status for a cancelled one."""
        self.ended_here = True
        self._task.cancel()


class AgentHost:
    """Carries out the core's effects over sessions, links and the fork server."""

    def __init__(
        self, core: AgentCore, settings: AgentSettings, keeper: TaskKeeper, logs: LogPusher
    ) -> None:
        self.core = core
        self._settings = settings
        self._keeper = keeper
        self.logs = logs
        self.forks: ForkClient
        self.environments: EnvironmentStore | None = None
        self.sessions: dict[bytes, Stream] = {}
        self.links: dict[bytes, Stream] = {}
        self.gcs: Outbox[n.AgentItem | Released | str] | None = None
        self.keep_for_gcs: Callable[[n.AgentItem], None]
        self.break_gcs: Callable[[], object]
        self.joined = asyncio.Event()
        """Set when the GCS took this node in for the first time."""
        self.end_agent: Callable[[e.EndAgent], None]
        self._outputs: dict[bytes, WorkerOutput] = {}
        self.ended_logs = EndedLogs(int(settings.ended_log_files))
        self._is_ending = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {
            e.SendToOwner: self._send_to_owner,
            e.SendToWorker: self._send_to_worker,
            e.SendToGcs: self._send_to_gcs,
            e.ReportSnapshot: self._report_snapshot,
            e.ReportDemand: self._report_demand,
            e.SpawnWorker: self._spawn_worker,
            e.PrepareEnvironment: self._prepare_environment,
            e.ReleaseEnvironment: self._release_environment,
            e.JobEnded: self._job_ended,
            e.KillWorker: self._kill_worker,
            e.LabelOutput: self._label_output,
            e.ProbeOwner: self._probe_owner,
            e.EndAgent: lambda effect: self.end_agent(effect),  # noqa: PLW0108 - set later
        }

    def run_effects(self) -> None:
        """After every event of the core: its effects in order, then its timer."""
        core = self.core
        pending = core.drain()
        while pending:
            for effect in pending:
                self._handlers[type(effect)](effect)
            pending = core.drain()
        self._arm(core.next_deadline_ms())

    def report(self, report: Report) -> None:
        """The fork server reports."""
        if self.environments is not None and self.environments.builders.report(report):
            return
        output = self._outputs.get(report.worker_id)
        if isinstance(report, Spawned):
            if output is not None:
                output.pid = report.pid
            self.core.worker_spawned(report.worker_id, report.pid, now_ms())
        else:
            tail = report.message
            if output is not None:
                del self._outputs[report.worker_id]
                tail = output.close() or tail
                self.ended_logs.add(output.files())
            self.core.worker_ended(report.worker_id, report.status, tail, now_ms())
        self.run_effects()

    async def say_last_words(self, timeout_s: float) -> None:
        """Waits until owners have what was queued for them, at most `timeout_s`."""
        self._is_ending = True
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for stream in list(self.sessions.values()):
                    await stream.outbox.drained()

    def close(self) -> None:
        """No more timers, no more output."""
        self._arm(None)
        for output in self._outputs.values():
            output.close()
        self._outputs.clear()

    def _arm(self, due_ms: int | None) -> None:
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms is not None:
            delay_s = max(0, due_ms - now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer, self._timer_ms = None, None
        # The loop's clock may be a millisecond ahead of ours: what was armed for now is due now.
        self.core.tick(now_ms() + 1)
        self.run_effects()

    def _send_to_owner(self, effect: e.SendToOwner) -> None:
        stream = self.sessions.get(effect.owner_id)
        if stream is not None:
            self._put(stream, effect.item, effect.key)

    def _send_to_worker(self, effect: e.SendToWorker) -> None:
        stream = self.links.get(effect.worker_id)
        if stream is not None:
            self._put(stream, effect.command, None)

    def _put(self, stream: Stream, item: object, key: str | None) -> None:
        try:
            stream.outbox.put(item, key)
        except OutboxOverflowError as error:
            log.warning("peer_reads_too_slowly", error=str(error))
            stream.end()

    def _send_to_gcs(self, effect: e.SendToGcs) -> None:
        self.keep_for_gcs(effect.item)
        self._put_to_gcs(effect.item, None)

    def _report_snapshot(self, _effect: e.ReportSnapshot) -> None:
        self._put_to_gcs("snapshot", "snapshot")

    def _report_demand(self, _effect: e.ReportDemand) -> None:
        self._put_to_gcs("demand", "demand")

    def _put_to_gcs(self, item: n.AgentItem | str, key: str | None) -> None:
        if self.gcs is None:
            return
        try:
            self.gcs.put(item, key)
        except OutboxOverflowError as error:
            # A new session states everything once: nothing is lost with this one.
            log.warning("gcs_reads_too_slowly", error=str(error))
            self.break_gcs()

    def environment_made(self, environment: str) -> None:
        """A runtime environment is ready."""
        self.core.environment_made(environment, now_ms())
        self.run_effects()

    def environment_failed(self, environment: str, message: str) -> None:
        """A runtime environment cannot be made."""
        self.core.environment_failed(environment, message, now_ms())
        self.run_effects()

    def _prepare_environment(self, effect: e.PrepareEnvironment) -> None:
        assert self.environments is not None, "an agent with processes has environments"
        self.environments.prepare(effect)

    def _release_environment(self, effect: e.ReleaseEnvironment) -> None:
        if self.environments is not None:
            self.environments.release(effect.environment)

    def _job_ended(self, effect: e.JobEnded) -> None:
        if self.environments is not None:
            self.environments.job_ended(effect.job_id)

    def _spawn_worker(self, effect: e.SpawnWorker) -> None:
        facts = self.core.facts
        assert self.environments is not None, "an agent with processes has environments"
        surroundings = worker_environment(
            effect.environment, self.environments.prepared(effect.environment), preloaded()
        )
        start = WorkerStart(
            worker_id=effect.worker_id,
            node_id=facts.node_id,
            agent_address=facts.address,
            gcs_address=facts.gcs_address,
            host=self._settings.reached_at,
            session_name=facts.session_name,
            temp_dir=self._settings.temp_dir,
            entry=self._settings.worker_entry,
            **surroundings,
        )
        pipes = self.forks.spawn(start)
        if pipes is not None:
            self._outputs[effect.worker_id] = WorkerOutput(
                effect.worker_id, pipes, self.log_folder(), facts.node_name, self.logs.push
            )

    def log_folder(self) -> Path:
        """Where this session's log files are."""
        return Path(self._settings.temp_dir, self.core.facts.session_name, "logs")

    def _kill_worker(self, effect: e.KillWorker) -> None:
        self.forks.kill(effect.worker_id)

    def _label_output(self, effect: e.LabelOutput) -> None:
        output = self._outputs.get(effect.worker_id)
        if output is not None:
            output.label(effect.job_id, effect.name, effect.driver_address)

    def _probe_owner(self, effect: e.ProbeOwner) -> None:
        if self._is_ending:  # owners end their sessions when they hear that the agent goes
            return
        self._keeper.start(self._probe(effect), f"probe:{effect.address}")

    async def _probe(self, effect: e.ProbeOwner) -> None:
        refused = await dial(effect.address, limits.OWNER_DIAL_S) is Dial.REFUSED
        self.core.owner_probed(effect.owner_id, refused=refused, now_ms=now_ms())
        self.run_effects()


def owner_frame(items: list[a.LeaseItem]) -> a.LeaseFrame:
    """One frame of a lease session."""
    return a.LeaseFrame(items=items)
