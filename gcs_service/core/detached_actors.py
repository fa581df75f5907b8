"""Detached actors: driven by the GCS with the state machine that owners use for theirs.

Placing one: ask the placement core for a node, write the target down, tell the agent. The agent
leases a worker and runs the constructor by itself, then reports. What happens to nodes, groups and
sessions comes in as events; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common import actor_lifecycle as life
from cluster_common import runtime_packages
from gcs_service import limits
from gcs_service.core import tables
from gcs_service.core.actor_placing import Target, choose_target
from gcs_service.core.actor_table import ActorTable
from gcs_service.core.detached_actor import DetachedActor, placement_of
from gcs_service.core.effects import Effect, ForgetPackages, Tell
from gcs_service.core.moment import Moment
from gcs_service.core.placement.placement_core import PlacementCore
from gcs_service.core.tables import Write
from gcs_service.core.watchers import Watchers

_GROUP_GONE = (pg.PLACEMENT_GROUP_STATE_REMOVED, pg.PLACEMENT_GROUP_STATE_REMOVING)
_LIVING_STATES = (t.ACTOR_STATE_PENDING_CREATION, t.ACTOR_STATE_RESTARTING)


class DetachedActors:
    """All detached actors that are not dead.

    Args:
        send: queues an item for a node's session; False when the node has none.
        ended: called with the id of an actor that is DEAD from now on.
    """

    def __init__(
        self,
        table: ActorTable,
        placement: PlacementCore,
        out: list[Effect],
        send: Callable[[bytes, ns.GcsItem], bool],
        placed: Callable[[Iterable[object]], None],
        ended: Callable[[bytes], None],
    ) -> None:
        self._table = table
        self._placement = placement
        self._out = out
        self._send = send
        self._placed = placed
        self._ended = ended
        self._actors: dict[bytes, DetachedActor] = {}
        self._waiting: dict[bytes, None] = {}
        self._unready: dict[bytes, None] = {}
        """Actors whose creators have not brought the constructor's arguments yet."""
        self.watchers: Watchers[bytes] = Watchers()

    def __len__(self) -> int:
        return len(self._actors)

    @property
    def waiting_count(self) -> int:
        """Actors without a node."""
        return len(self._waiting)

    def waiting(self) -> list[DetachedActor]:
        """Actors without a node, for demand."""
        return [self._actors[actor_id] for actor_id in self._waiting]

    def get(self, actor_id: bytes) -> DetachedActor | None:
        """A living detached actor."""
        return self._actors.get(actor_id)

    def create(self, request: g.CreateDetachedActorRequest, at: Moment) -> None:
        """Registers and places a new one; the caller has checked its name."""
        request.actor.start_time_ms = request.actor.start_time_ms or at.wall_ms
        actor = DetachedActor(request)
        actor_id = request.actor.actor_id
        assert actor_id not in self._actors, f"actor {actor_id.hex()} exists"
        self._actors[actor_id] = actor
        self._out.append(Write(tables.ACTOR_SPEC, actor_id, request.SerializeToString()))
        if request.arguments_pending:
            self._unready[actor_id] = None
            self._publish(actor)
        else:
            self._arguments_there(actor, request.argument_error, at)

    def arguments_arrived(self, request: g.CreateDetachedActorRequest, at: Moment) -> None:
        """The same creation again, now with the arguments (or their error); idempotent."""
        actor_id = request.actor.actor_id
        actor = self._actors.get(actor_id)
        if actor is None or actor_id not in self._unready or request.arguments_pending:
            return
        del self._unready[actor_id]
        actor.request = request
        self._out.append(Write(tables.ACTOR_SPEC, actor_id, request.SerializeToString()))
        self._arguments_there(actor, request.argument_error, at)

    def creator_ended(self, actor_id: bytes, message: str, at: Moment) -> None:
        """The process that asked for it is gone: nobody will bring arguments that are missing."""
        if actor_id in self._unready:
            text = f"its creator ended before the constructor's arguments were there: {message}"
            self._end(self._actors[actor_id], t.ACTOR_DEATH_CAUSE_OWNER_DIED, text, at)

    def load(self, request: g.CreateDetachedActorRequest, record: t.ActorRecord) -> None:
        """Rebuilds a machine from the rows of the last life of the service."""
        actor = DetachedActor(request)
        machine = actor.machine
        machine.state, machine.incarnation = record.state, record.incarnation
        machine.restarts, machine.version = record.restarts, record.version
        machine.preempted_restarts = record.preempted_restarts
        self._actors[record.actor_id] = actor
        if record.state == t.ACTOR_STATE_ALIVE:
            machine.placement = life.Placement(
                record.node_id, record.worker_id, record.worker_address, record.pid
            )
        elif record.state == t.ACTOR_STATE_DEPENDENCIES_UNREADY:
            self._unready[record.actor_id] = None
        elif record.node_id:
            actor.target = Target(record.node_id, 0)
        else:
            self._waiting[record.actor_id] = None

    def event(self, node_id: bytes, event: ns.DetachedActorEvent, at: Moment) -> None:
        """What an agent says about one of them."""
        actor = self._actors.get(event.actor_id)
        if actor is None:
            if event.kind == ns.DETACHED_ACTOR_EVENT_KIND_STARTED:
                self._kill(node_id, event.actor_id, event.incarnation, "not wanted any more")
            return
        machine = actor.machine
        if event.kind == ns.DETACHED_ACTOR_EVENT_KIND_STARTED:
            self._started(actor, event.incarnation, placement_of(node_id, event), at)
        elif event.incarnation != machine.incarnation or machine.is_dead:
            return
        elif node_id != actor.node_id:
            return  # told again by a node that was asked before this one
        elif event.kind == ns.DETACHED_ACTOR_EVENT_KIND_REFUSED:
            self._refused(actor, at)
        elif event.kind == ns.DETACHED_ACTOR_EVENT_KIND_CREATION_FAILED:
            actor.target = None
            effects = machine.creation_failed(
                event.incarnation, event.message, event.error, at.wall_ms
            )
            self._run(actor, effects, at)
        elif event.kind == ns.DETACHED_ACTOR_EVENT_KIND_ENDED:
            self._worker_ended(actor, event, at)

    def node_lost(
        self, node_id: bytes, cause: t.ActorDeathCause.ValueType, message: str, at: Moment
    ) -> None:
        """The node died: its actors restart elsewhere or die."""
        for actor in self._on(node_id):
            actor.target = None
            machine = actor.machine
            if machine.placement is None and machine.state in _LIVING_STATES:
                self._place(actor, at)  # it had not started there: no restart is used up
                continue
            self._run(
                actor, machine.worker_ended(machine.incarnation, cause, message, at.wall_ms), at
            )

    def node_registered(
        self, node_id: bytes, held: Iterable[ns.DetachedActorHeld], at: Moment
    ) -> None:
        """The agent states what it holds: settle every difference."""
        stated: dict[bytes, ns.DetachedActorHeld] = {item.actor_id: item for item in held}
        for item in stated.values():
            actor = self._actors.get(item.actor_id)
            if actor is None or actor.machine.incarnation != item.incarnation:
                self._kill(node_id, item.actor_id, item.incarnation, "replaced or ended meanwhile")
            elif item.worker_address:
                self._started(actor, item.incarnation, placement_of(node_id, item), at)
        for actor in self._on(node_id):
            if actor.machine.actor_id in stated:
                continue
            machine = actor.machine
            if machine.placement is None:
                self._place(actor, at, on=node_id)
                continue
            message = f"the agent of node {node_id.hex()} does not hold it any more"
            cause = t.ACTOR_DEATH_CAUSE_WORKER_DIED
            self._run(
                actor, machine.worker_ended(machine.incarnation, cause, message, at.wall_ms), at
            )
        self.room_changed(at)

    def group_changed(self, record: pg.PlacementGroupRecord, at: Moment) -> None:
        """A group was placed (its actors can start) or removed (they end)."""
        group_id = record.spec.placement_group_id
        inside = [
            actor
            for actor in self._actors.values()
            if actor.request.start.placement_group_id == group_id
        ]
        for actor in inside:
            if record.state in _GROUP_GONE:
                self._end(actor, t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED, "", at)
            elif actor.machine.actor_id in self._waiting:
                self._place(actor, at)

    def room_changed(self, at: Moment) -> None:
        """Something became free, or a node joined: look again for those that wait."""
        for actor_id in list(self._waiting):
            self._place(self._actors[actor_id], at)

    def kill(self, actor_id: bytes, *, no_restart: bool, graceful: bool, at: Moment) -> bool:
        """The user's kill; whether there is such an actor."""
        actor = self._actors.get(actor_id)
        if actor is None:
            return False
        machine = actor.machine
        if no_restart:
            effects = machine.end(
                t.ACTOR_DEATH_CAUSE_KILLED, "killed by kill()", at.wall_ms, graceful=graceful
            )
        else:
            effects = machine.restart_requested("killed by kill(no_restart=False)", at.wall_ms)
        self._run(actor, effects, at)
        return True

    def next_deadline_ms(self) -> int | None:
        """When the next waiting actor looks again."""
        return min((self._actors[a].retry_due_ms for a in self._waiting), default=None)

    def tick(self, at: Moment) -> None:
        """Retries what is due."""
        for actor_id in list(self._waiting):
            if self._actors[actor_id].retry_due_ms <= at.mono_ms:
                self._place(self._actors[actor_id], at)

    # ---- inside

    def _arguments_there(self, actor: DetachedActor, error: bytes, at: Moment) -> None:
        machine = actor.machine
        if error:
            text = "an argument of the constructor failed"
            cause = t.ACTOR_DEATH_CAUSE_CREATION_FAILED
            self._run(actor, machine.end(cause, text, at.wall_ms, error=error), at)
        else:
            self._run(actor, machine.dependencies_ready(), at)

    def _on(self, node_id: bytes) -> list[DetachedActor]:
        found = [self._actors.get(record.actor_id) for record in self._table.on_node(node_id)]
        return [actor for actor in found if actor is not None]

    def _started(
        self, actor: DetachedActor, incarnation: int, placement: life.Placement, at: Moment
    ) -> None:
        machine = actor.machine
        self._run(actor, machine.lease_granted(incarnation, placement), at)
        if machine.placement == placement:
            actor.target, actor.retry_delay_ms = None, 0
            self._waiting.pop(machine.actor_id, None)
            self._run(actor, machine.creation_succeeded(incarnation), at)

    def _refused(self, actor: DetachedActor, at: Moment) -> None:
        target, actor.target = actor.target, None
        if target is not None and target.reservation_seq:
            self._placed(
                self._placement.release(target.node_id, target.reservation_seq, at.mono_ms)
            )
        self._wait(actor, at)
        self._publish(actor)

    def _worker_ended(self, actor: DetachedActor, event: ns.DetachedActorEvent, at: Moment) -> None:
        machine = actor.machine
        actor.target = None
        cause = event.cause or t.ACTOR_DEATH_CAUSE_WORKER_DIED
        if event.intended and cause not in life.NO_RESTART_CAUSES:
            cause = t.ACTOR_DEATH_CAUSE_EXITED
        effects = machine.worker_ended(event.incarnation, cause, event.message, at.wall_ms)
        self._run(actor, effects, at)

    def _end(
        self, actor: DetachedActor, cause: t.ActorDeathCause.ValueType, message: str, at: Moment
    ) -> None:
        self._run(actor, actor.machine.end(cause, message, at.wall_ms), at)

    def _run(self, actor: DetachedActor, effects: Iterable[life.Effect], at: Moment) -> None:
        for effect in effects:
            match effect:
                case life.RequestLease():
                    self._place(actor, at)
                case life.CancelLease(actor_id, incarnation):
                    if actor.target is not None:
                        self._kill(actor.target.node_id, actor_id, incarnation, "cancelled")
                case life.StopWorker(actor_id, incarnation, placement, graceful, reason):
                    self._kill(placement.node_id, actor_id, incarnation, reason, graceful=graceful)
                case life.Publish():
                    self._publish(actor)
                case life.PushCreation():
                    pass  # the agent that granted the worker ran the constructor already

    def _place(self, actor: DetachedActor, at: Moment, on: bytes = b"") -> None:
        choice = choose_target(self._placement, actor.request, on)
        if not isinstance(choice, Target):
            if choice.is_final:
                self._waiting.pop(actor.machine.actor_id, None)
                self._end(actor, choice.cause, choice.message, at)
            else:
                actor.is_infeasible = choice.is_infeasible
                self._wait(actor, at)
            return
        self._waiting.pop(actor.machine.actor_id, None)
        actor.target = choice
        self._publish(actor)  # the target is durable before the agent hears of it
        start = ns.StartDetachedActor()
        start.CopyFrom(actor.request.start)
        start.actor_id = actor.machine.actor_id
        start.incarnation = actor.machine.incarnation
        start.reservation_seq = choice.reservation_seq
        self._send(choice.node_id, ns.GcsItem(node_id=choice.node_id, start_detached_actor=start))

    def _wait(self, actor: DetachedActor, at: Moment) -> None:
        delay = actor.retry_delay_ms * 3 // 2 or limits.ACTOR_RETRY_FIRST_MS
        actor.retry_delay_ms = min(delay, limits.ACTOR_RETRY_MS_MAX)
        actor.retry_due_ms = at.mono_ms + actor.retry_delay_ms
        self._waiting[actor.machine.actor_id] = None

    def _kill(
        self,
        node_id: bytes,
        actor_id: bytes,
        incarnation: int,
        reason: str,
        *,
        graceful: bool = False,
    ) -> None:
        kill = ns.KillDetachedActor(
            actor_id=actor_id, incarnation=incarnation, graceful=graceful, reason=reason
        )
        # Without a session nothing is lost: the agent states what it holds when it comes back.
        self._send(node_id, ns.GcsItem(node_id=node_id, kill_detached_actor=kill))

    def _publish(self, actor: DetachedActor) -> None:
        machine = actor.machine
        known = self._table.get(machine.actor_id)
        # Targets change without the machine's notice, so the record has a version of its own.
        machine.version = max(machine.version, known.version + 1 if known is not None else 1)
        record = actor.record()
        writes = self._table.put(record)
        if writes is None:
            return
        self._out.extend(writes)
        for session in self.watchers.of(machine.actor_id):
            self._out.append(Tell(session, record, machine.actor_id))
        if machine.is_dead:
            self.watchers.end(machine.actor_id)
            self._actors.pop(machine.actor_id, None)
            self._waiting.pop(machine.actor_id, None)
            self._unready.pop(machine.actor_id, None)
            self._out.append(Write(tables.ACTOR_SPEC, machine.actor_id, None))
            if actor.request.start.runtime_env_json:
                prefix = runtime_packages.actor_prefix(machine.actor_id)
                self._out.append(ForgetPackages(prefix))
            self._ended(machine.actor_id)
