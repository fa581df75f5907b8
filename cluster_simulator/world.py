"""The whole cluster: machines, processes, network, disk, time. Scenarios put work into it."""

from __future__ import annotations

import hashlib
from random import Random

import msgspec

from cluster_common.resources import RESOURCE_UNIT, Vector
from cluster_simulator.agent_process import AgentProcess, Machine
from cluster_simulator.event_heap import EventHeap
from cluster_simulator.gcs_process import GcsProcess
from cluster_simulator.network import Network
from cluster_simulator.owner.gang import Gang
from cluster_simulator.owner.owner_process import OwnerProcess
from cluster_simulator.store import Disk
from cluster_simulator.story import Story
from cluster_simulator.workers import Worker

GCS_RESTART_US = 400_000
AGENT_RESTART_US = 300_000


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a user may say about the work of a scenario; 0: what the scenario likes."""

    gangs: int = 0
    bundles: int = 0
    bundle_cpus: int = 0
    actors_per_bundle: int = 4


class World:
    """Built by the runner; one seed decides everything that happens in it."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        *,
        recording: bool = False,
        digesting: bool = True,
        rack_size: int = 4,
        cpus: int = 4,
        schedulers: int = 1,
        snapshot_delay_ms: int = 0,
        load: Load | None = None,
    ) -> None:
        self.seed = seed
        self.rack_size = rack_size
        self.snapshot_delay_us = snapshot_delay_ms * 1_000
        self.load = load or Load()
        self.heap = EventHeap()
        self.story = Story(self.heap, recording=recording, digesting=digesting)
        self.network = Network(self.heap, self.dice_for("network"))
        self.dice = self.dice_for("workload")
        self.disk = Disk()
        self.cluster_id = self._id("cluster")
        self.gcs: GcsProcess | None = None
        self.gcs_lives = 0
        self.restarts = True
        """Whether what crashed comes back by itself."""
        self.agents: dict[int, AgentProcess] = {}
        """By machine; only those that run."""
        self.nodes: dict[bytes, AgentProcess] = {}
        self.owners: dict[bytes, OwnerProcess] = {}
        self.all_owners: list[OwnerProcess] = []
        """Those that ended included."""
        self.workers: dict[str, Worker] = {}
        self.launches: list[Gang] = []
        self.refused_prepares: list[tuple[bytes, bytes, str]] = []
        """(node, group, reason) as the GCS heard them."""
        self.actors_up_us: list[int] = []
        """When actors answered for the first time."""
        self._owner_count = 0
        self.machines = [
            self._machine(number, rack_size, cpus, is_scheduler=number < schedulers)
            for number in range(nodes)
        ]

    def dice_for(self, purpose: str) -> Random:
        """Own dice for each purpose: more of one thing does not change the others."""
        return Random(f"{self.seed}:{purpose}")  # noqa: S311 - a simulation

    def _id(self, name: str) -> bytes:
        return hashlib.blake2b(f"{self.seed}:{name}".encode(), digest_size=16).digest()

    def _machine(self, number: int, rack_size: int, cpus: int, *, is_scheduler: bool) -> Machine:
        total: Vector = {"CPU": cpus * RESOURCE_UNIT}
        labels = {"rack": f"r{number // rack_size}"} if rack_size else {}
        return Machine(number, f"m{number}:1", total, labels, is_scheduler)

    # ---- lives

    def start_gcs(self) -> None:
        """The next life of the service, over the same disk."""
        if self.gcs is not None:
            return
        self.gcs_lives += 1
        dice = self.dice_for(f"gcs{self.gcs_lives}")
        self.gcs = GcsProcess(self, self.disk, self.cluster_id, dice)
        self.story.note(f"gcs life {self.gcs.epoch} starts")
        self.gcs.start()

    def gcs_died(self) -> None:
        """Called by the process."""
        self.gcs = None
        if self.restarts:
            self.heap.after(GCS_RESTART_US, self.start_gcs)

    def start_agent(self, machine: Machine) -> None:
        """A new node on this machine, unless one runs."""
        if machine.number in self.agents:
            return
        machine.starts += 1
        name = f"agent{machine.number}.{machine.starts}"
        agent = AgentProcess(self, machine, self._id(name), self.dice_for(name))
        self.agents[machine.number] = agent
        self.nodes[agent.node_id] = agent
        self.story.note(f"{agent.name} starts", agent.node_id)
        agent.start()

    def agent_died(self, agent: AgentProcess) -> None:
        """Called by the process."""
        self.story.note(f"{agent.name} is gone", agent.node_id)
        if self.agents.get(agent.machine.number) is agent:
            del self.agents[agent.machine.number]
        self.nodes.pop(agent.node_id, None)
        if self.restarts:
            self.heap.after(AGENT_RESTART_US, self.start_agent, agent.machine)

    def start_owner(self) -> OwnerProcess:
        """A driver at one of the running agents."""
        self._owner_count += 1
        home = self.some_agent()
        assert home is not None, "owners need an agent to start at"
        owner_id = self._id(f"owner{self._owner_count}")
        owner = OwnerProcess(self, self._owner_count, owner_id, home)
        self.owners[owner_id] = owner
        self.all_owners.append(owner)
        owner.start()
        return owner

    def owner_died(self, owner: OwnerProcess) -> None:
        """Called by the process."""
        self.story.note(f"{owner.name} is gone", owner.owner_id)
        self.owners.pop(owner.owner_id, None)

    def some_agent(self, near: OwnerProcess | None = None) -> AgentProcess | None:
        """Any agent that is in the cluster; `near` an owner: in its own order of preference."""
        joined = [agent for agent in self.agents.values() if agent.joined]
        if not joined:
            return None
        number = self._owner_count if near is None else int.from_bytes(near.owner_id[:4], "big")
        return joined[number % len(joined)]

    def gang_up(self, gang: Gang) -> None:
        """All actors of a gang answer for the first time."""
        self.launches.append(gang)
        if self.story.is_on:
            self.story.note("gang is up", gang.group_id)

    def gangs(self) -> list[Gang]:
        """All that were ever launched."""
        return [gang for owner in self.all_owners for gang in owner.gangs]
