"""The GCS: its real control core, broadcast and demand tables over a modelled shell.

Mirrors the shell: a batch of events, then effects through the journal's lane, answers behind the
writes they depend on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from cluster_api.v1 import node_session_pb2 as ns
from cluster_simulator import costs
from cluster_simulator.link import Link
from cluster_simulator.process import Process
from cluster_simulator.store import Disk, Journal, Output
from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core import tables
from gcs_service.core.broadcast_table import BroadcastTable, FanOut
from gcs_service.core.cluster_identity import ClusterIdentity
from gcs_service.core.control_core import ControlCore
from gcs_service.core.demand_table import DemandTable
from gcs_service.core.moment import Moment
from gcs_service.core.tables import Write

if TYPE_CHECKING:
    from cluster_simulator.world import World

GCS_ADDRESS = "gcs:1"
_NAMED = ("placement_group_id", "actor_id", "owner_id")
_PREPARES = (ns.BUNDLE_ACTION_PREPARE, ns.BUNDLE_ACTION_PREPARE_AND_COMMIT)
Answered = Callable[[Any], None]
Failed = Callable[[], None]


class GcsProcess(Process):
    """One life of the service over a disk that outlives it."""

    def __init__(self, world: World, disk: Disk, cluster_id: bytes, dice: Random) -> None:
        super().__init__(world, "gcs", GCS_ADDRESS)
        self.disk = disk
        epoch = int.from_bytes(disk.rows[tables.CLUSTER].get(tables.EPOCH, b"\0"), "big") + 1
        disk.commit([Write(tables.CLUSTER, tables.EPOCH, epoch.to_bytes(8, "big"))])
        identity = ClusterIdentity(
            cluster_id=cluster_id,
            epoch=epoch,
            session_name="simulated",
            start_wall_ms=self.moment().wall_ms,
            node_settings={},
        )
        self.epoch = epoch
        self.core = ControlCore(identity, dice)
        self.broadcast = BroadcastTable(views_to_all=False)
        self.demand = DemandTable(identity.first_revision, identity.session_name)
        self.journal = Journal(disk, world.heap, world.dice_for(f"disk{epoch}"), self._carry_all)
        self.sessions: dict[int, Link] = {}
        self._outstanding: dict[int, Failed] = {}
        self._calls = 0
        self._probing: dict[bytes, int] = {}
        self._answered: dict[bytes, bool] = {}
        self._carriers: dict[type, Callable[[Any], Output]] = {
            fx.Tell: lambda e: (self._tell, (e.session, e.item, e.key)),
            fx.CloseSession: lambda e: (self._close, (e.session,)),
            fx.LeaveSession: lambda e: (self._close, (e.session,)),
            fx.NodeSessionOpened: lambda e: (self._opened, (e,)),
            fx.NodeChanged: lambda e: (self._changed, (e,)),
            fx.OwnersEnded: lambda e: (self._owners_ended, (e.owner_ids,)),
            fx.ProbeNode: lambda e: (self._probe_node, (e.node_id, e.address)),
            fx.DrainSettled: lambda e: (self._drain_settled, (e,)),
            fx.ConfirmSilence: lambda e: (self._confirm_silence, (e.node_id,)),
            fx.ForgetPackages: lambda _: (self._forget_packages, ()),
            fx.ProbeDriver: lambda e: (self._probe_driver, (e,)),
        }

    def _forget_packages(self) -> None:
        """There are no packages here."""

    def start(self) -> None:
        """Loads what is durable and listens."""
        rows = self.disk.load()
        rows.pop(tables.KV)
        self.demand.load(rows.pop(tables.AUTOSCALER))
        self.core.load(rows, self.moment())
        nodes = self.core.membership.nodes
        self.broadcast.load(nodes.rows(alive_only=False, limit=limits.NODES_MAX))
        self.network.listeners[GCS_ADDRESS] = self
        self.core.tick(self.moment())
        self._settle([])

    def moment(self) -> Moment:
        """Both clocks; the wall's started somewhere else."""
        now_ms = self.heap.now_ms
        return Moment(now_ms, costs.WALL_START_MS + now_ms)

    def gone(self) -> None:
        """What was not durable is lost; who waits for an answer hears that the connection broke."""
        self.journal.die()
        for failed in self._outstanding.values():
            self.heap.after(self.network.delay_us(), failed)
        self._outstanding.clear()
        self.world.gcs_died()

    # ---- events

    def link_accepted(self, link: Link) -> None:
        """A stream of an agent or of an owner."""
        self.sessions[link.number] = link
        link.data = {}

    def link_frame(self, link: Link, items: list[Any]) -> None:
        """Waits for the thread."""
        cost = costs.GCS_FRAME_US + len(items) * costs.GCS_ITEM_US
        self.work(cost, self._frame, link, items)

    def _frame(self, link: Link, items: list[Any]) -> None:
        if link.kind == "groups":
            self.core.group_frame(link.number, items, self.moment())
        else:
            self._node_items(link, items)
        self._settle([])

    def _node_items(self, link: Link, items: list[ns.AgentItem]) -> None:
        story = self.world.story
        for item in items:
            kind = item.WhichOneof("item")
            if story.is_on:
                story.note(f"gcs < {described(item)}", item.node_id, *_subjects(item))
            if kind == "register":
                link.data[item.node_id] = None
            elif kind == "bundle_answer" and not item.bundle_answer.ok:
                self._refused(item.node_id, item.bundle_answer)
            elif kind == "snapshot":
                self._fan_out(self.broadcast.snapshot(item.node_id, item.snapshot))
        self.core.node_frame(link.number, items, self.moment())

    def _refused(self, node_id: bytes, answer: ns.BundleAnswer) -> None:
        if answer.action in _PREPARES:
            refused = (node_id, answer.placement_group_id, f"{answer.reason}: {answer.message}")
            self.world.refused_prepares.append(refused)

    def link_closed(self, link: Link, *, refused: bool) -> None:
        """Behind what it still delivered."""
        del refused
        self.work(costs.GCS_ITEM_US, self._session_over, link)

    def _session_over(self, link: Link) -> None:
        if self.sessions.pop(link.number, None) is None:
            return
        if link.kind == "groups":
            self.core.session_closed(link.number, self.moment())
        else:
            for node_id in link.data:
                if self.world.story.is_on:
                    self.world.story.note("gcs sees its session closed", node_id)
                self.broadcast.closed(link.number, node_id)
            if link.data:
                self.core.node_session_closed(link.number, list(link.data), self.moment())
        self._settle([])

    def timer_due(self) -> None:
        """The core's deadline."""
        self.core.tick(self.moment())
        self._settle([])

    def call(
        self, method: Callable[..., Any], args: tuple[Any, ...], answered: Answered, failed: Failed
    ) -> None:
        """A unary call arrived; answered when what it wrote is durable."""
        self._calls += 1
        number = self._calls
        self._outstanding[number] = failed
        self.work(
            costs.GCS_ITEM_US + costs.GCS_FRAME_US, self._call, number, method, args, answered
        )

    def _call(
        self, number: int, method: Callable[..., Any], args: tuple[Any, ...], answered: Answered
    ) -> None:
        result = method(*args, self.moment())
        self._settle([(self._answer, (number, answered, result))])

    def _answer(self, number: int, answered: Answered, result: Any) -> None:
        self._outstanding.pop(number, None)
        self.heap.after(self.network.delay_us(), answered, result)

    # ---- effects

    def _settle(self, answers: list[Output]) -> None:
        at = self.moment()
        update = self.core.take_demand(at)
        if update is not None:
            self.demand.apply(update)
        writes: list[Write] = []
        outputs: list[Output] = []
        for effect in self.core.take_effects(at):
            if type(effect) is Write:
                if outputs and not writes:
                    self.journal.deliver((), outputs)
                    outputs = []
                writes.append(effect)
            else:
                outputs.append(self._carriers[type(effect)](effect))
        outputs += answers
        if writes or outputs:
            self.journal.deliver(writes, outputs)
        if self.alive:
            self.arm(self.core.next_deadline_ms())

    def _carry_all(self, outputs: list[Output]) -> None:
        for call, args in outputs:
            if not self.may_act():
                return
            call(*args)

    def _tell(self, session: int, item: Any, key: Any) -> None:
        link = self.sessions.get(session)
        if link is None:
            return
        story = self.world.story
        if story.is_on and isinstance(item, ns.GcsItem):
            story.note(f"gcs > {described(item)}", item.node_id, *_subjects(item))
        link.send(1, item, key)

    def _fan_out(self, fan_outs: list[FanOut]) -> None:
        for fan_out in fan_outs:
            for session in fan_out.sessions:
                link = self.sessions.get(session)
                if link is not None:
                    link.send(1, fan_out.item, fan_out.key)

    def _close(self, session: int) -> None:
        link = self.sessions.get(session)
        if link is not None:
            link.close(1)
            self.later(costs.NETWORK_US, self._session_over, link)

    def _opened(self, effect: fx.NodeSessionOpened) -> None:
        self._stop_probing(effect.record.node_id)
        self._fan_out(self.broadcast.opened(effect))

    def _changed(self, effect: fx.NodeChanged) -> None:
        self._fan_out(self.broadcast.changed(effect.record, effect.scheduler_address))

    def _owners_ended(self, owner_ids: tuple[bytes, ...]) -> None:
        self._fan_out(self.broadcast.owners_ended(owner_ids))

    def _drain_settled(self, effect: fx.DrainSettled) -> None:
        if self.world.story.is_on:
            self.world.story.note(f"drain accepted: {effect.accepted}", effect.node_id)

    # ---- reachability

    def _probe_node(self, node_id: bytes, address: str) -> None:
        give_up_us = self.heap.now_us + limits.RECONNECT_REACHABLE_MS * 1_000
        ticket = self._probing[node_id] = self._probing.get(node_id, 0) + 1
        self._dial_node(node_id, address, ticket, give_up_us, 10_000)

    def _stop_probing(self, node_id: bytes) -> None:
        self._answered.pop(node_id, None)
        if node_id in self._probing:
            self._probing[node_id] += 1

    def _dial_node(
        self, node_id: bytes, address: str, ticket: int, give_up_us: int, interval_us: int
    ) -> None:
        if self._probing.get(node_id) != ticket or self.heap.now_us >= give_up_us:
            return
        entry = self.core.entry_of(node_id)
        if entry is None or not entry.is_alive:
            return

        def found(word: str) -> None:
            if self._probing.get(node_id) != ticket:
                return
            self._answered[node_id] = word == "answered"
            if word == "refused":
                self.core.node_port_refused(node_id, self.moment())
                self._settle([])
                return
            again_us = min(interval_us * 2, limits.PROBE_INTERVAL_MS * 1_000)
            again = partial(self._dial_node, node_id, address, ticket, give_up_us, again_us)
            self.later(interval_us, again)

        self.network.probe(self, address, found)

    def _confirm_silence(self, node_id: bytes) -> None:
        answers = self._answered.get(node_id, False)
        evidence = fx.SilenceEvidence(loop_lag_ms=0, port_answers=answers)
        self.work(costs.GCS_ITEM_US, self._silence_confirmed, node_id, evidence)

    def _silence_confirmed(self, node_id: bytes, evidence: fx.SilenceEvidence) -> None:
        self.core.silence_confirmed(node_id, evidence, self.moment())
        self._settle([])

    def _probe_driver(self, effect: fx.ProbeDriver) -> None:
        def found(word: str) -> None:
            if word == "refused" or (effect.silence_counts and word == "silent"):
                self.core.driver_gone(effect.job_id, self.moment())
            else:
                self.core.drivers.look_later(effect.job_id, self.moment())
            self._settle([])

        self.network.probe(self, effect.address, found)


def described(item: ns.AgentItem | ns.GcsItem) -> str:
    """One item in a few words."""
    kind = item.WhichOneof("item") or "nothing"
    body = getattr(item, kind, None)
    if isinstance(body, ns.BundleCommand):
        indexes = [bundle.index for bundle in body.bundles]
        action = ns.BundleAction.Name(body.action).removeprefix("BUNDLE_ACTION_")
        group = body.placement_group_id[-4:].hex()
        return f"{action} {group}{indexes} attempt {body.attempt} seq {body.reservation_seq}"
    if isinstance(body, ns.BundleAnswer):
        action = ns.BundleAction.Name(body.action).removeprefix("BUNDLE_ACTION_")
        said = "ok" if body.ok else body.reason
        group = body.placement_group_id[-4:].hex()
        return f"answer {action} {group}{list(body.indexes)} attempt {body.attempt}: {said}"
    if isinstance(body, ns.ResourceSnapshot):
        free = dict(sorted(body.available.amounts.items()))
        return f"snapshot v{body.version} applied {body.applied_reservations} free {free}"
    if isinstance(body, ns.DetachedActorEvent):
        what = ns.DetachedActorEventKind.Name(body.kind).removeprefix("DETACHED_ACTOR_EVENT_KIND_")
        return f"detached {what} {body.actor_id[-4:].hex()} incarnation {body.incarnation}"
    return kind


def _subjects(item: ns.AgentItem | ns.GcsItem) -> tuple[bytes, ...]:
    body: Any = getattr(item, item.WhichOneof("item") or "", None)
    found = (getattr(body, name, b"") for name in _NAMED)
    return tuple(one for one in found if one)
