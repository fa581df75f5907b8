"""The GCS's one decider for nodes, jobs, owners, actors and placement groups.

It owns no fact itself: it routes what happened to the table that owns it, and tells the others what
follows. All methods run on one thread, take the moment last, and leave their effects for
`take_effects`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common import runtime_packages
from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core import tables
from gcs_service.core.actor_desk import ActorDesk
from gcs_service.core.actor_table import ActorTable
from gcs_service.core.agent_items import AgentItems
from gcs_service.core.cluster_identity import ClusterIdentity
from gcs_service.core.demand_facts import DemandUpdate
from gcs_service.core.demand_feed import DemandFeed
from gcs_service.core.detached_actors import DetachedActors
from gcs_service.core.driver_watch import DriverWatch
from gcs_service.core.effects import Effect, Refusal
from gcs_service.core.group_desk import NO_SESSION, GroupDesk
from gcs_service.core.job_table import JobTable
from gcs_service.core.membership import Membership
from gcs_service.core.moment import Moment
from gcs_service.core.node_deaths import NodeDeaths
from gcs_service.core.node_table import NodeEntry
from gcs_service.core.owner_endings import OwnerEndings
from gcs_service.core.owner_tombstones import OwnerTombstones
from gcs_service.core.placement.placement_core import PlacementCore
from gcs_service.core.tables import Write


class ControlCore:
    """See the module. Public attributes are for questions, never for changes from outside."""

    def __init__(
        self,
        identity: ClusterIdentity,
        dice: random.Random,
        ping_interval_ms: int = limits.PING_INTERVAL_MS,
        history_rows: int | None = None,
    ) -> None:
        self.identity = identity
        self._out: list[Effect] = []
        self._ended_actors: list[bytes] = []
        self.membership = Membership(identity, self._out, ping_interval_ms)
        self.jobs = JobTable(history_rows)
        self.drivers = DriverWatch(self.jobs, self._out)
        self.owners = OwnerTombstones(self._out)
        self.placement = PlacementCore(dice, identity.epoch)
        self.groups = GroupDesk(self.placement, self.owners, self._out, self.membership.send)
        self.actors = ActorTable(history_rows)
        self.detached = DetachedActors(
            self.actors,
            self.placement,
            self._out,
            self.membership.send,
            self._carry,
            self._ended_actors.append,
        )
        self.actor_desk = ActorDesk(self.actors, self.detached, self.owners, self._out)
        self.demand = DemandFeed(self.membership.nodes, self.placement, self.detached)
        self._owner_endings = OwnerEndings(
            self.owners,
            self.jobs,
            self.actors,
            self.actor_desk,
            self.placement,
            self._out,
            self._carry,
            self._ended_actors.append,
        )
        self._node_deaths = NodeDeaths(
            self.membership,
            self.jobs,
            self.drivers,
            self.actors,
            self.detached,
            self._owner_endings,
            self.demand,
            self.placement,
            self._carry,
        )
        self._agent_items = AgentItems(
            self.membership,
            self.owners,
            self.drivers,
            self.detached,
            self._owner_endings,
            self._node_deaths,
            self.demand,
            self.placement,
            self._out,
            self._carry,
        )

    def take_effects(self, at: Moment) -> list[Effect]:
        """Everything to be carried out since the last call, in order."""
        self._settle(at)
        effects = list(self._out)
        self._out.clear()
        return effects

    @property
    def effects_count(self) -> int:
        """Effects that were not taken yet."""
        return len(self._out)

    def has_written_since(self, count: int) -> bool:
        """Whether something after the first `count` effects must become durable."""
        return any(type(effect) is Write for effect in self._out[count:])

    def take_demand(self, at: Moment) -> DemandUpdate | None:
        """What changed for the demand table since the last call, as one step."""
        return self.demand.take(at)

    # ---- start

    def load(self, rows: dict[str, list[tuple[bytes, bytes]]], at: Moment) -> None:
        """The tables of the last life of the service. Before any session."""
        for key, value in rows[tables.CLUSTER]:
            if key == tables.LAST_JOB:
                self.jobs.load_last_number(int.from_bytes(value, "big"))
        self.owners.load(rows[tables.OWNER], at)
        for _, value in rows[tables.JOB]:
            self.jobs.load(g.JobRecord.FromString(value))
        nodes = [t.NodeRecord.FromString(value) for _, value in rows[tables.NODE]]
        self.membership.load(nodes, dict(rows[tables.DRAIN]), at)
        groups = [pg.PlacementGroupRecord.FromString(v) for _, v in rows[tables.PLACEMENT_GROUP]]
        self._carry(self.placement.load(groups, at.mono_ms, self.identity.epoch))
        specs = dict(rows[tables.ACTOR_SPEC])
        records = [t.ActorRecord.FromString(value) for _, value in rows[tables.ACTOR]]
        for record in sorted(records, key=lambda row: row.start_time_ms):
            self.actors.load(record)
            spec = specs.get(record.actor_id)
            if spec is not None and record.state != t.ACTOR_STATE_DEAD:
                self.detached.load(g.CreateDetachedActorRequest.FromString(spec), record)
        for node_id in self.placement.expected_nodes():
            if self.membership.nodes.get_alive(node_id) is None:
                self._carry(self.placement.node_lost(node_id, at.mono_ms))
        for job in self.jobs.running():
            self.drivers.look_later(job.job_id, at)
        self._node_deaths.follow_up(records, at)
        for entry in self.membership.nodes.alive():
            self.demand.node_changed(entry.record.node_id)
        self._settle(at)

    # ---- node sessions

    def node_frame(self, session: int, items: Sequence[ns.AgentItem], at: Moment) -> None:
        """Items of one stream, in order. Those of a session that was replaced are void."""
        for item in items:
            self._agent_items.take(session, item, at)
        self._settle(at)

    def node_session_closed(self, session: int, node_ids: Iterable[bytes], at: Moment) -> None:
        """A stream ended: its nodes have a window to resume."""
        for node_id in node_ids:
            if self.membership.session_closed(session, node_id, at):
                self._carry(self.placement.node_disconnected(node_id))
        self._settle(at)

    def node_port_refused(self, node_id: bytes, at: Moment) -> None:
        """Nobody listens at the address of a node whose stream is broken: its process is gone."""
        if self.membership.liveness.is_broken(node_id):
            message = "its session broke and its port refuses connections: the process is gone"
            self._node_deaths.died(node_id, t.NODE_DEATH_CAUSE_CRASHED, message, at)
        self._settle(at)

    def silence_confirmed(self, node_id: bytes, evidence: fx.SilenceEvidence, at: Moment) -> None:
        """Back from the I/O loop: the node is dead unless it spoke, or we were late ourselves."""
        liveness = self.membership.liveness
        if not liveness.silence_confirmed(node_id, at.mono_ms):
            return
        if liveness.was_late(node_id, evidence.loop_lag_ms, at.mono_ms):
            return
        if evidence.port_answers and liveness.may_wait(node_id, at.mono_ms):
            return
        broken = liveness.is_broken(node_id)
        cause = t.NODE_DEATH_CAUSE_CRASHED if broken else t.NODE_DEATH_CAUSE_MISSED_PINGS
        told = liveness.describe(node_id)
        message = f"{told}; own loop lag {evidence.loop_lag_ms} ms"
        self._node_deaths.died(node_id, cause, message, at)
        self._settle(at)

    # ---- time

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        deadlines = (
            self.membership.liveness.next_deadline_ms(),
            self.placement.next_deadline_ms(),
            self.detached.next_deadline_ms(),
            self.drivers.next_deadline_ms(),
        )
        return min((d for d in deadlines if d is not None), default=None)

    def tick(self, at: Moment) -> None:
        """Deadlines that passed."""
        self.membership.due(at)
        self._carry(self.placement.tick(at.mono_ms))
        self.detached.tick(at)
        self.drivers.tick(at)
        self._settle(at)

    # ---- groups

    def group_frame(self, session: int, items: Sequence[pg.GroupRequest], at: Moment) -> None:
        """Creates, removals and watches of one process, in order."""
        for item in items:
            self._carry(self.groups.request(session, item, at), session)
        self._settle(at)

    def watch_group(self, session: int, group_id: bytes, _at: Moment) -> None:
        """Tells `session` of this group now and at every change."""
        self._carry(self.groups.watch(session, group_id))

    def session_closed(self, session: int, _at: Moment) -> None:
        """A watching session ended."""
        self.groups.close(session)
        self.detached.watchers.close(session)

    # ---- jobs and owners

    def add_job(self, request: g.JobRecord, at: Moment) -> g.JobRecord | Refusal:
        """A driver begins; idempotent by driver id."""
        if self.owners.is_dead(request.driver_id):
            message = f"driver {request.driver_id.hex()} was declared dead; start a new one"
            return Refusal(fx.OWNER_DEAD, message)
        if not request.driver_id:
            return Refusal(fx.BAD_REQUEST, "a job needs the id of its driver")
        known = self.jobs.of_driver(request.driver_id)
        if known is not None:
            return known
        if self.jobs.running_count >= limits.JOBS_RUNNING_MAX:
            text = f"{limits.JOBS_RUNNING_MAX} jobs run, the limit; end some first"
            return Refusal(fx.TABLE_FULL, text)
        record = self.jobs.add(request, at.wall_ms)
        last = self.jobs.last_number.to_bytes(4, "big")
        self._out.append(Write(tables.CLUSTER, tables.LAST_JOB, last))
        self._out.append(Write(tables.JOB, record.job_id, record.SerializeToString()))
        self.drivers.look_later(record.job_id, at)
        return record

    def finish_job(self, job_id: bytes, at: Moment) -> Refusal | None:
        """A driver ends in order; idempotent."""
        job = self.jobs.get(job_id)
        if job is None:
            return Refusal(fx.NOT_FOUND, f"there is no job {job_id.hex()}")
        if not job.is_dead:
            self._owner_endings.end([job.driver_id], "its job finished", at)
        self._settle(at)
        return None

    def driver_gone(self, job_id: bytes, at: Moment) -> None:
        """The driver itself does not answer, or refuses."""
        job = self.jobs.get(job_id)
        if job is not None and not job.is_dead:
            self._owner_endings.end([job.driver_id], "it cannot be reached any more", at)
        self._settle(at)

    # ---- operators

    def drain_node(
        self,
        node_id: bytes,
        reason: ns.DrainReason.ValueType,
        message: str,
        deadline_ms: int,
        at: Moment,
    ) -> bool | Refusal:
        """No new work on a node from the moment this is acknowledged.

        A preemption comes whatever the agent says, so it is recorded at once. An idle node may have
        got work meanwhile, so it counts as draining when its agent has accepted.

        Returns:
            Whether `DrainSettled` follows with the agent's word; False: an agent that cannot be
            reached now is told when it comes back.
        """
        entry = self.membership.nodes.get_alive(node_id)
        if entry is None:
            known = self.membership.nodes.get(node_id)
            state = "not known" if known is None else f"dead: {known.record.death_message}"
            return Refusal(fx.NOT_FOUND, f"node {node_id.hex()} is {state}")
        command = ns.DrainCommand(reason=reason, message=message, deadline_ms=deadline_ms)
        reachable = entry.session != 0
        if reachable and reason == ns.DRAIN_REASON_IDLE_TERMINATION:
            self.membership.ask_to_drain(entry, command)
        else:
            self.membership.drain(entry, command)
            self._carry(self.placement.node_draining(node_id, draining=True, now_ms=at.mono_ms))
        self._settle(at)
        return reachable

    def withdraw_drain(self, node_id: bytes, at: Moment) -> None:
        """Whoever asked was told that the agent did not answer: a late acceptance is undone."""
        entry = self.membership.nodes.get_alive(node_id)
        if entry is not None and self.membership.take_asked(node_id) is not None:
            cancel = ns.GcsItem(node_id=node_id, drain=ns.DrainCommand(cancel=True))
            self.membership.send(node_id, cancel)
        self._settle(at)

    # ---- inside

    def _carry(self, effects: Iterable[object], asked_by: int = NO_SESSION) -> None:
        self.groups.translate(effects, asked_by)

    def _settle(self, at: Moment) -> None:
        """Follows chains to their end: a removed group ends actors, an ended actor its groups."""
        while True:
            changed = self.groups.take_changed()
            self._ended_actors += self.actor_desk.take_ended()
            ended = list(self._ended_actors)
            self._ended_actors.clear()
            if not changed and not ended:
                return
            for record in changed:
                self.detached.group_changed(record, at)
            for actor_id in ended:
                self._carry(self.placement.actor_ended(actor_id, at.mono_ms))

    def needs_packages(self, prefix: bytes) -> bool:
        """Whether the job or detached actor that this prefix of directory rows names lives."""
        running = (runtime_packages.job_prefix(job.job_id) for job in self.jobs.running())
        kind, actor_id = prefix[:1], prefix[1:]
        actor = self.detached.get(actor_id) if kind == runtime_packages.actor_prefix(b"") else None
        return actor is not None or prefix in running

    def entry_of(self, node_id: bytes) -> NodeEntry | None:
        """A node alive or dead, for questions."""
        return self.membership.nodes.get(node_id)
