"""One agent: its real core over modelled streams, fork server and timers.

Mirrors the shell's node session (what is told again after a reconnect, what is built late) and its
lease sessions (the newest of an owner counts).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_common.resources import RESOURCE_UNIT, Vector
from cluster_simulator import costs
from cluster_simulator.gcs_process import GCS_ADDRESS
from cluster_simulator.link import Link
from cluster_simulator.process import Process
from cluster_simulator.workers import Workers
from raylet_agent import limits
from raylet_agent.core import effects as e
from raylet_agent.core.agent import AgentCore
from raylet_agent.core.facts import NodeFacts

if TYPE_CHECKING:
    from cluster_simulator.world import World

_RESENT = ("owner_ended", "detached_actor")
_RESENT_AGE_US = 30_000_000
_RESENT_ITEMS_MAX = 1_000
_GIVE_UP_US = 120_000_000
"""How long an agent looks for a GCS that is away."""


class Machine(msgspec.Struct):
    """Where agents run, one after another."""

    number: int
    address: str
    total: Vector
    labels: dict[str, str]
    is_scheduler: bool
    starts: int = 0


class AgentProcess(Process):
    """One start of an agent on a machine; a new start is a new node."""

    def __init__(self, world: World, machine: Machine, node_id: bytes, dice: Random) -> None:
        super().__init__(world, f"agent{machine.number}.{machine.starts}", machine.address)
        self.machine = machine
        self.node_id = self.identity = node_id
        now_ms = self.heap.now_ms
        facts = NodeFacts(
            node_id=node_id,
            address=machine.address,
            node_name=f"m{machine.number}",
            hostname=f"h{machine.number}",
            labels=machine.labels,
            is_head=machine.number == 0,
            is_scheduler=machine.is_scheduler,
            gcs_address=GCS_ADDRESS,
            pid=1,
            start_time_ms=costs.WALL_START_MS + now_ms,
            wall_offset_ms=costs.WALL_START_MS,
        )
        self._worker_number = 0
        self.core = AgentCore(facts, dict(machine.total), self._new_worker, dice, 0, now_ms)
        self.workers = Workers(self, machine.total.get("CPU", 0) // RESOURCE_UNIT)
        self.joined = False
        self._gcs: Link | None = None
        self._incarnation = 0
        self._revision = 0
        self._backoff_us = 0
        self._lost_us = self.heap.now_us
        self._leaving = False
        self._recent: deque[tuple[int, n.AgentItem]] = deque(maxlen=_RESENT_ITEMS_MAX)
        self._owners: dict[bytes, Link] = {}
        self._handlers: dict[type, Callable[[Any], None]] = {
            e.SendToOwner: self._send_to_owner,
            e.SendToWorker: lambda x: self.workers.command(x.worker_id, x.command),
            e.SendToGcs: self._send_to_gcs,
            e.ReportSnapshot: lambda _: self._report("snapshot", self._snapshot),
            e.ReportDemand: lambda _: self._report("demand", self._demand),
            e.SpawnWorker: lambda x: self.workers.spawn(x.worker_id),
            e.PrepareEnvironment: self._prepare_environment,
            e.ReleaseEnvironment: lambda _: None,
            e.JobEnded: lambda _: None,
            e.KillWorker: lambda x: self.workers.kill(x.worker_id),
            e.LabelOutput: lambda _: None,
            e.ProbeOwner: self._probe_owner,
            e.EndAgent: self._end_agent,
        }

    def start(self) -> None:
        """Listens and dials the GCS."""
        self.network.listeners[self.address] = self
        self._dial()

    def gone(self) -> None:
        """Everything below it ends with it."""
        self.workers.all_end()
        self.world.agent_died(self)

    def _new_worker(self) -> bytes:
        self._worker_number += 1
        return self.node_id[:8] + self._worker_number.to_bytes(8, "big")

    # ---- effects

    def _prepare_environment(self, effect: e.PrepareEnvironment) -> None:
        """There are no disks here: every environment is ready at once."""
        self.core.environment_made(effect.environment, self.heap.now_ms)

    def run_effects(self) -> None:
        """After every event: effects in order, then the timer."""
        pending = self.core.drain()
        while pending:
            for effect in pending:
                if not self.may_act():
                    return
                self._handlers[type(effect)](effect)
            pending = self.core.drain() if self.alive else []
        if self.alive:
            self.arm(self.core.next_deadline_ms())

    def timer_due(self) -> None:
        """The core's deadline."""
        self.core.tick(self.heap.now_ms)
        self.run_effects()

    def _send_to_owner(self, effect: e.SendToOwner) -> None:
        link = self._owners.get(effect.owner_id)
        if link is not None:
            story = self.world.story
            if story.is_on:
                kind = effect.item.WhichOneof("item") or ""
                lease_id = getattr(getattr(effect.item, kind), "lease_id", b"")
                text = f"{self.name} > owner {kind}"
                if kind == "failed":
                    text += f" {a.LeaseFailure.Name(effect.item.failed.reason)}"
                story.note(text, self.node_id, effect.owner_id, lease_id)
            link.send(1, effect.item, effect.key)

    def _send_to_gcs(self, effect: e.SendToGcs) -> None:
        item = effect.item
        refused = item.detached_actor.kind == n.DETACHED_ACTOR_EVENT_KIND_REFUSED
        if item.WhichOneof("item") in _RESENT and not refused:
            self._recent.append((self.heap.now_us, item))
        self._put(item)

    def _put(self, item: n.AgentItem) -> None:
        if self._gcs is not None and self.joined:
            item.node_id = self.node_id
            self._gcs.send(0, item)

    def _report(self, key: str, build: Callable[[], n.AgentItem]) -> None:
        if self._gcs is None or not self.joined:
            return
        delay_us = self.world.snapshot_delay_us if key == "snapshot" else 0
        if delay_us:
            self.later(delay_us, self._gcs.send, 0, build, key)
        else:
            self._gcs.send(0, build, key)

    def _snapshot(self) -> n.AgentItem:
        self.core.snapshots.now_ms = self.heap.now_ms
        return n.AgentItem(node_id=self.node_id, snapshot=self.core.snapshots.build())

    def _demand(self) -> n.AgentItem:
        return n.AgentItem(node_id=self.node_id, demand=self.core.snapshots.demand())

    def _probe_owner(self, effect: e.ProbeOwner) -> None:
        def found(word: str) -> None:
            refused = word == "refused"
            now_ms = self.heap.now_ms
            self.core.owner_probed(effect.owner_id, refused=refused, now_ms=now_ms)
            self.run_effects()

        self.network.probe(self, effect.address, found)

    def _end_agent(self, effect: e.EndAgent) -> None:
        self._put(n.AgentItem(goodbye=n.Goodbye(cause=effect.cause, message=effect.message)))
        self._leaving = True
        self.later(10 * costs.WRITE_US, self.crash)

    # ---- node session

    def _dial(self) -> None:
        self._incarnation += 1
        self.joined = False
        core = self.core
        core.registering(self.heap.now_ms)
        self._gcs = self.network.connect("node", self, GCS_ADDRESS)
        register = core.registration(self._incarnation, self._revision)
        self._gcs.send(0, n.AgentItem(node_id=self.node_id, register=register))
        if self.world.story.is_on:
            self.world.story.note(f"{self.name} registers", self.node_id)

    def _gcs_items(self, link: Link, items: list[n.GcsItem]) -> None:
        if link is not self._gcs:
            return
        for item in items:
            if not self.alive:
                return
            self._gcs_item(item)
        self.run_effects()

    def _gcs_item(self, item: n.GcsItem) -> None:
        kind = item.WhichOneof("item")
        if kind == "welcome":
            self._welcomed(item.welcome)
        elif kind == "refused":
            if self.world.story.is_on:
                self.world.story.note(f"{self.name} refused: {item.refused.reason}", self.node_id)
            self.crash()
        elif kind == "ping":
            self._put(n.AgentItem(ping_answer=n.PingAnswer(nonce=item.ping.nonce)))
        else:
            if kind == "node_change":
                self._revision = max(self._revision, item.node_change.node.revision)
            self.core.gcs_item(item, self.heap.now_ms)

    def _welcomed(self, welcome: n.Welcome) -> None:
        self.joined = True
        self._backoff_us = 0
        self._revision = max(self._revision, welcome.revision)
        self.core.welcomed(welcome, self.heap.now_ms)
        for sent_us, item in self._recent:
            if sent_us >= self.heap.now_us - _RESENT_AGE_US:
                self._put(item)
        self._report("snapshot", self._snapshot)
        self._report("demand", self._demand)
        self.run_effects()

    def _gcs_lost(self) -> None:
        if self.joined:
            self._lost_us = self.heap.now_us
        self.joined = False
        self._gcs = None
        if self._leaving or self.heap.now_us - self._lost_us > _GIVE_UP_US:
            self.crash()
            return
        longest_us = round(limits.GCS_BACKOFF_MAX_S * 1_000_000)
        shortest_us = round(limits.GCS_BACKOFF_MIN_S * 1_000_000)
        self._backoff_us = min(longest_us, max(shortest_us, self._backoff_us * 3 // 2))
        self.later(self._backoff_us, self._dial)

    # ---- lease sessions

    def link_frame(self, link: Link, items: list[Any]) -> None:
        """From the GCS or from an owner."""
        cost = len(items) * costs.AGENT_ITEM_US
        if link.kind == "node":
            self.work(cost, self._gcs_items, link, items)
        else:
            self.work(cost, self._owner_frame, link, items)

    def link_closed(self, link: Link, *, refused: bool) -> None:
        """Behind what it still delivered."""
        del refused
        self.work(0, self._link_over, link)

    def _link_over(self, link: Link) -> None:
        if link is self._gcs:
            self._gcs_lost()
            return
        owner_id = link.data
        if owner_id is not None and self._owners.get(owner_id) is link:
            del self._owners[owner_id]
            self.core.session_lost(owner_id, self.heap.now_ms)
            self.run_effects()

    def _owner_frame(self, link: Link, items: list[a.OwnerItem]) -> None:
        if link.data is None:
            opening = items[0].open
            refused = self._refusal(opening)
            if refused is not None:
                link.data = b""
                link.send(1, a.LeaseItem(refused=refused))
                link.close(1)
                return
            items = items[1:]
            self._open_owner(link, opening)
        owner_id = link.data
        assert owner_id is not None, "the first item opened it"
        if self._owners.get(owner_id) is not link:
            return
        if self.world.story.is_on:
            for item in items:
                kind = item.WhichOneof("item") or ""
                body = getattr(item, kind)
                lease_id = getattr(body, "lease_id", b"")
                self.world.story.note(f"{self.name} < owner {kind}", self.node_id, lease_id)
        self.core.owner_items(owner_id, items, self.heap.now_ms)
        self.run_effects()

    def _open_owner(self, link: Link, opening: a.OpenOwner) -> None:
        owner_id = opening.owner_id
        earlier = self._owners.get(owner_id)
        if earlier is not None:
            earlier.close(1)
        self._owners[owner_id] = link
        link.data = owner_id
        welcome = self.core.owner_opened(opening, self.heap.now_ms)
        assert welcome is not None, "a dead owner was refused above"
        link.send(1, a.LeaseItem(welcome=welcome))

    def _refusal(self, opening: a.OpenOwner) -> n.Refused | None:
        if not self.core.facts.cluster_id:
            return n.Refused(reason="bad_request", message="this agent has not joined yet")
        if self.core.owners.is_dead(opening.owner_id, self.heap.now_ms):
            return n.Refused(reason="declared_dead", message="the owner was declared dead")
        return None
