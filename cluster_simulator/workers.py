"""Worker processes of one agent: they are forked, register, run constructors, and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_api.v1 import agent_pb2 as a
from cluster_simulator import costs

if TYPE_CHECKING:
    from cluster_simulator.agent_process import AgentProcess

_KILLED = -9


class Worker:
    """One process. `actor`: (actor id, incarnation) whose constructor ran here."""

    __slots__ = ("actor", "address", "alive", "lease_id", "worker_id")

    def __init__(self, worker_id: bytes, address: str) -> None:
        self.worker_id = worker_id
        self.address = address
        self.alive = True
        self.lease_id = b""
        self.actor: tuple[bytes, int] | None = None


class Workers:
    """What the fork server and the links do, in virtual time.

    Args:
        agent: whose they are. They end with it.
        cores: how many starts run at once; more only slow each other.
    """

    def __init__(self, agent: AgentProcess, cores: int) -> None:
        self._agent = agent
        self._free_us = [0] * max(1, cores)
        self.living: dict[bytes, Worker] = {}

    def spawn(self, worker_id: bytes) -> None:
        """Forks; the registration follows when a core had time for it."""
        agent = self._agent
        worker = Worker(worker_id, f"{agent.address}/{worker_id[-4:].hex()}")
        self.living[worker_id] = worker
        agent.world.workers[worker.address] = worker
        core = min(range(len(self._free_us)), key=self._free_us.__getitem__)
        begin_us = max(self._free_us[core], agent.heap.now_us)
        forked_us = begin_us + costs.FORK_US
        self._free_us[core] = forked_us + costs.WORKER_START_US
        agent.heap.at(forked_us, self._forked, worker)
        agent.heap.at(self._free_us[core], self._register, worker)

    def kill(self, worker_id: bytes) -> None:
        """SIGKILL."""
        worker = self.living.get(worker_id)
        if worker is not None:
            self.end(worker, _KILLED)

    def end(self, worker: Worker, status: int) -> None:
        """The process is gone now; the agent is told a moment later."""
        if worker.alive:
            worker.alive = False
            self._agent.world.workers.pop(worker.address, None)
            self._agent.heap.after(costs.WORKER_END_US, self._ended, worker, status)

    def command(self, worker_id: bytes, command: a.WorkerCommand) -> None:
        """One command over the worker's link."""
        worker = self.living.get(worker_id)
        if worker is None:
            return
        kind = command.WhichOneof("item")
        if kind == "lease_begin":
            worker.lease_id = command.lease_begin.lease_id
        elif kind == "lease_end":
            worker.lease_id = b""
        elif kind == "create_actor":
            body = command.create_actor
            actor = (body.actor_id, body.incarnation)
            self._agent.heap.after(costs.CONSTRUCTOR_US, self._constructed, worker, actor)
        elif kind == "exit":
            self._agent.heap.after(costs.GRACEFUL_EXIT_US, self.end, worker, 0)

    def all_end(self) -> None:
        """The agent is gone, and everything below it."""
        for worker in self.living.values():
            worker.alive = False
            self._agent.world.workers.pop(worker.address, None)
        self.living.clear()

    def _forked(self, worker: Worker) -> None:
        agent = self._agent
        if agent.alive and worker.worker_id in self.living:
            agent.core.worker_spawned(worker.worker_id, 1, agent.heap.now_ms)
            agent.run_effects()

    def _register(self, worker: Worker) -> None:
        agent = self._agent
        if not agent.alive or not worker.alive:
            return
        registration = a.RegisterWorker(worker_id=worker.worker_id, pid=1, address=worker.address)
        command = agent.core.worker_registered(registration, agent.heap.now_ms)
        if command is None:
            self.end(worker, 0)
        agent.run_effects()

    def _constructed(self, worker: Worker, actor: tuple[bytes, int]) -> None:
        agent = self._agent
        if not agent.alive or not worker.alive:
            return
        worker.actor = actor
        outcome = a.ActorCreationOutcome(actor_id=actor[0], incarnation=actor[1], ok=True)
        item = a.WorkerItem(actor_created=outcome)
        agent.core.worker_items(worker.worker_id, [item], agent.heap.now_ms)
        agent.run_effects()

    def _ended(self, worker: Worker, status: int) -> None:
        agent = self._agent
        if agent.alive and self.living.pop(worker.worker_id, None) is not None:
            agent.core.worker_ended(worker.worker_id, status, "", agent.heap.now_ms)
            agent.run_effects()
