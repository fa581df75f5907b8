"""Runs one agent's core in a fleet: as the real host does, but for processes there are none."""

from __future__ import annotations

import asyncio

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_common.transport.task_keeper import TaskKeeper
from raylet_agent.core import effects as e
from raylet_agent.core.agent import AgentCore
from raylet_agent.fleet.callees import Callees
from raylet_agent.fleet.held_snapshots import HeldSnapshots
from raylet_agent.settings import AgentSettings
from raylet_agent.shell.fork_messages import Exited
from raylet_agent.shell.host import AgentHost, now_ms
from raylet_agent.shell.log_pusher import LogPusher

_PREPARES = (n.BUNDLE_ACTION_PREPARE, n.BUNDLE_ACTION_PREPARE_AND_COMMIT)
_KILLED = -9


class PrepareCounts:
    """Answers of all agents to prepares."""

    def __init__(self) -> None:
        self.answered = 0
        self.rejected = 0


class FleetHost(AgentHost):
    """A worker is a row here and in `callees`; it registers in the next turn of the loop."""

    def __init__(
        self,
        core: AgentCore,
        settings: AgentSettings,
        keeper: TaskKeeper,
        logs: LogPusher,
        *,
        callees: Callees,
        held: HeldSnapshots | None,
        prepares: PrepareCounts,
    ) -> None:
        super().__init__(core, settings, keeper, logs)
        self._callees = callees
        self._held = held
        self._prepares = prepares
        self._workers: set[bytes] = set()
        self._closed = False

    def report_now(self) -> None:
        """The agent's resources changed: the newest snapshot goes out, whatever is held back."""
        self._put_to_gcs("snapshot", "snapshot")

    def close(self) -> None:
        """No more timers, no more workers."""
        self._closed = True
        super().close()
        for worker_id in self._workers:
            self._callees.died(worker_id)
        self._workers.clear()

    def _report_snapshot(self, effect: e.ReportSnapshot) -> None:
        if self._held is None:
            super()._report_snapshot(effect)
            return
        snapshots = self.core.snapshots
        snapshots.now_ms = now_ms()
        item = n.AgentItem(snapshot=snapshots.build())
        self._held.hold(lambda: self._send_late(item))

    def _send_late(self, item: n.AgentItem) -> None:
        if not self._closed:
            self._put_to_gcs(item, None)

    def _send_to_gcs(self, effect: e.SendToGcs) -> None:
        answer = effect.item.bundle_answer
        if answer.action in _PREPARES:
            self._prepares.answered += 1
            self._prepares.rejected += not answer.ok
        super()._send_to_gcs(effect)

    def _prepare_environment(self, effect: e.PrepareEnvironment) -> None:
        asyncio.get_running_loop().call_soon(self.environment_made, effect.environment)

    def _spawn_worker(self, effect: e.SpawnWorker) -> None:
        asyncio.get_running_loop().call_soon(self._born, effect.worker_id)

    def _born(self, worker_id: bytes) -> None:
        if self._closed:
            return
        self.core.worker_spawned(worker_id, 0, now_ms())
        registration = a.RegisterWorker(worker_id=worker_id, address=self._callees.address)
        self._workers.add(worker_id)
        self._callees.born(worker_id)
        if self.core.worker_registered(registration, now_ms()) is None:
            self._died(worker_id, _KILLED)
            return
        self.run_effects()

    def _kill_worker(self, effect: e.KillWorker) -> None:
        asyncio.get_running_loop().call_soon(self._died, effect.worker_id, _KILLED)

    def _died(self, worker_id: bytes, status: int) -> None:
        if self._closed:
            return
        self._workers.discard(worker_id)
        self._callees.died(worker_id)
        self.report(Exited(worker_id, 0, status))

    def _send_to_worker(self, effect: e.SendToWorker) -> None:
        kind = effect.command.WhichOneof("item")
        loop = asyncio.get_running_loop()
        if kind == "exit":
            loop.call_soon(self._died, effect.worker_id, 0)
        elif kind == "create_actor":
            loop.call_soon(self._created, effect.worker_id, effect.command.create_actor)

    def _created(self, worker_id: bytes, order: a.CreateDetachedActor) -> None:
        if worker_id not in self._workers:
            return
        outcome = a.ActorCreationOutcome(
            actor_id=order.actor_id, incarnation=order.incarnation, ok=True
        )
        self.core.worker_items(worker_id, [a.WorkerItem(actor_created=outcome)], now_ms())
        self.run_effects()
