"""What goes wrong, and when: decided by the seed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from cluster_api.v1 import node_session_pb2 as ns
from cluster_simulator import costs

if TYPE_CHECKING:
    from cluster_simulator.world import World


class Faults(msgspec.Struct, frozen=True):
    """Mean times between faults of each kind, virtual milliseconds; 0: never."""

    gcs_crash_ms: int = 0
    agent_crash_ms: int = 0
    worker_crash_ms: int = 0
    owner_crash_ms: int = 0
    link_break_ms: int = 0
    partition_ms: int = 0
    slow_ms: int = 0
    slow_disk_ms: int = 0
    drain_ms: int = 0


class Nemesis:
    """Schedules faults until `stop`, then heals what is broken."""

    def __init__(self, world: World, faults: Faults) -> None:
        self._world = world
        self._dice = world.dice_for("nemesis")
        self._is_on = True
        self._kinds = {
            self._crash_gcs: faults.gcs_crash_ms,
            self._crash_agent: faults.agent_crash_ms,
            self._crash_worker: faults.worker_crash_ms,
            self._crash_owner: faults.owner_crash_ms,
            self._break_link: faults.link_break_ms,
            self._cut: faults.partition_ms,
            self._slow: faults.slow_ms,
            self._slow_disk: faults.slow_disk_ms,
            self._drain: faults.drain_ms,
        }
        self.done: dict[str, int] = {}

    def start(self) -> None:
        """From now on."""
        for strike, mean_ms in self._kinds.items():
            if mean_ms:
                self._next(strike, mean_ms)

    def stop(self) -> None:
        """Calm: everybody is connected and fast again."""
        self._is_on = False
        world = self._world
        for process in [*world.agents.values(), *world.owners.values()]:
            world.network.heal(process)
            world.network.slow(process, 0)
        if world.gcs is not None:
            world.network.heal(world.gcs)
            world.gcs.journal.slow_us = 0

    def _next(self, strike: object, mean_ms: int) -> None:
        wait_us = round(self._dice.expovariate(1 / (mean_ms * 1_000)))
        self._world.heap.after(wait_us, self._strike, strike, mean_ms)

    def _strike(self, strike: partial[None], mean_ms: int) -> None:
        if self._is_on:
            strike()
            self._next(strike, mean_ms)

    def _note(self, what: str, *about: bytes) -> None:
        self.done[what] = self.done.get(what, 0) + 1
        self._world.story.note(f"fault: {what}", *about)

    def _crash_gcs(self) -> None:
        if self._world.gcs is not None:
            self._note("gcs crashes between two of its effects")
            self._world.gcs.crash_after(self._dice.randrange(12))

    def _crash_agent(self) -> None:
        agents = list(self._world.agents.values())
        if len(agents) > 1:
            agent = self._dice.choice(agents)
            self._note("agent crashes between two of its effects", agent.node_id)
            agent.crash_after(self._dice.randrange(6))
            # An idle agent has no effects: it dies anyway.
            agent.later(200_000, agent.crash)

    def _crash_worker(self) -> None:
        agents = [x for x in self._world.agents.values() if x.workers.living]
        if agents:
            agent = self._dice.choice(agents)
            worker = self._dice.choice(list(agent.workers.living.values()))
            self._note("worker crashes", agent.node_id)
            agent.workers.end(worker, -11)

    def _crash_owner(self) -> None:
        owners = list(self._world.owners.values())
        if owners:
            owner = self._dice.choice(owners)
            self._note("owner crashes between two of its effects", owner.owner_id)
            owner.crash_after(self._dice.randrange(4))
            owner.later(200_000, owner.crash)

    def _break_link(self) -> None:
        links = list(self._world.network.links.values())
        if links:
            link = self._dice.choice(links)
            self._note(f"{link.kind} link breaks")
            self._world.network.break_link(link, slow_to_see_us=self._dice.choice([0, 2_000_000]))

    def _cut(self) -> None:
        world = self._world
        processes = [*world.agents.values(), *world.owners.values()]
        if processes:
            process = self._dice.choice(processes)
            what = "owner" if process.identity in world.owners else "agent"
            self._note(f"{what} is cut off", process.identity)
            world.network.cut(process)
            for_us = self._dice.choice([300_000, 3_000_000, 12_000_000])
            world.heap.after(for_us, world.network.heal, process)

    def _slow(self) -> None:
        agents = list(self._world.agents.values())
        if agents:
            agent = self._dice.choice(agents)
            extra_us = self._dice.choice([20_000, 500_000, 4_000_000])
            self._note(f"agent is slower by {extra_us // 1_000} ms", agent.node_id)
            self._world.network.slow(agent, extra_us)
            self._world.heap.after(5_000_000, self._world.network.slow, agent, 0)

    def _slow_disk(self) -> None:
        gcs = self._world.gcs
        if gcs is not None:
            self._note("disk is slow")
            gcs.journal.slow_us = self._dice.choice([20_000, 200_000])
            gcs.later(2_000_000, self._disk_is_fast)

    def _disk_is_fast(self) -> None:
        if self._world.gcs is not None:
            self._world.gcs.journal.slow_us = 0

    def _drain(self) -> None:
        agents = [x for x in self._world.agents.values() if x.joined]
        if len(agents) > 1:
            agent = self._dice.choice(agents)
            self.drain(agent.node_id, self._dice.choice([500, 3_000, 8_000]))

    def drain(self, node_id: bytes, deadline_ms: int) -> None:
        """Orders the drain of a node, by the GCS, as an operator does."""
        gcs = self._world.gcs
        if gcs is None:
            return
        idle = self._dice.random() < 0.2
        reason = ns.DRAIN_REASON_IDLE_TERMINATION if idle else ns.DRAIN_REASON_PREEMPTION
        self._note("drain", node_id)
        wall_ms = costs.WALL_START_MS + self._world.heap.now_ms + deadline_ms
        gcs.call(
            gcs.core.drain_node,
            (node_id, reason, "simulated", wall_ms),
            lambda _: None,
            lambda: None,
        )
