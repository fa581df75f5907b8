"""Items of agents' streams, each brought to the tables that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service.core import effects as fx
from gcs_service.core.demand_feed import DemandFeed
from gcs_service.core.detached_actors import DetachedActors
from gcs_service.core.driver_watch import DriverWatch
from gcs_service.core.effects import Effect, Tell
from gcs_service.core.known_values import is_known_event, node_cause
from gcs_service.core.membership import Membership
from gcs_service.core.moment import Moment
from gcs_service.core.node_deaths import NodeDeaths
from gcs_service.core.owner_endings import OwnerEndings
from gcs_service.core.owner_tombstones import OwnerTombstones
from gcs_service.core.placement.placement_core import PlacementCore


class AgentItems:
    """Routes items by kind. Effects go to `out`.

    Args:
        placed: takes the placement core's effects.
    """

    def __init__(
        self,
        membership: Membership,
        owners: OwnerTombstones,
        drivers: DriverWatch,
        detached: DetachedActors,
        owner_endings: OwnerEndings,
        node_deaths: NodeDeaths,
        demand: DemandFeed,
        placement: PlacementCore,
        out: list[Effect],
        placed: Callable[[Iterable[object]], None],
    ) -> None:
        self._membership = membership
        self._owners = owners
        self._drivers = drivers
        self._detached = detached
        self._owner_endings = owner_endings
        self._node_deaths = node_deaths
        self._demand = demand
        self._placement = placement
        self._out = out
        self._placed = placed
        self._handlers: dict[str, Callable[[bytes, ns.AgentItem, Moment], None]] = {
            "snapshot": self._snapshot,
            "demand": self._demand_report,
            "bundle_answer": self._bundle_answer,
            "owner_ended": self._owner_ended,
            "detached_actor": self._detached_event,
            "ping_answer": self._ping_answer,
            "ping": lambda _node_id, _item, _at: None,  # answered by the shell; it was heard
            "drain_answer": self._drain_answer,
            "goodbye": self._goodbye,
            "node_question": self._node_question,
        }

    def take(self, session: int, item: ns.AgentItem, at: Moment) -> None:
        """One item; void when its session was replaced."""
        kind = item.WhichOneof("item")
        if kind == "register":
            self._register(session, item.node_id, item.register, at)
            return
        entry = self._membership.nodes.get_alive(item.node_id)
        handler = self._handlers.get(kind or "")
        if entry is not None and entry.session == session and handler is not None:
            self._membership.liveness.heard(item.node_id, at.mono_ms)
            handler(item.node_id, item, at)

    def _register(self, session: int, node_id: bytes, request: ns.RegisterNode, at: Moment) -> None:
        left_behind = self._membership.nodes.left_behind_at(request.address, node_id)
        entry = self._membership.register(session, node_id, request, at)
        if entry is None:
            return
        if left_behind is not None:
            message = f"agent {node_id.hex()} listens at its address now"
            self._node_deaths.died(
                left_behind.record.node_id, t.NODE_DEATH_CAUSE_CRASHED, message, at
            )
        effects = self._placement.node_joined(
            node_id,
            request.address,
            request.labels,
            entry.snapshot,
            request.bundles,
            at.mono_ms,
            draining=entry.record.state == t.NODE_STATE_DRAINING,
            is_head=request.is_head,
        )
        self._placed(effects)
        # Of the same moment as the snapshot: what waits there is not forgotten for a while.
        self._demand.reported(node_id, request.demand if request.HasField("demand") else None)
        self._demand.node_changed(node_id)
        dead = [owner for owner in request.owner_ids if self._owners.is_dead(owner)]
        if dead:
            died = ns.GcsItem(node_id=node_id, owners_died=ns.OwnersDied(owner_ids=dead))
            self._out.append(Tell(session, died))
        self._detached.node_registered(node_id, request.detached, at)

    def _snapshot(self, node_id: bytes, item: ns.AgentItem, at: Moment) -> None:
        entry = self._membership.nodes.get_alive(node_id)
        assert entry is not None
        if item.snapshot.version < entry.snapshot.version:
            return
        entry.snapshot = item.snapshot
        self._demand.node_changed(node_id)
        self._placed(self._placement.node_snapshot(node_id, item.snapshot, at.mono_ms))
        if self._detached.waiting_count:
            self._detached.room_changed(at)

    def _demand_report(self, node_id: bytes, item: ns.AgentItem, _at: Moment) -> None:
        self._demand.reported(node_id, item.demand)

    def _bundle_answer(self, node_id: bytes, item: ns.AgentItem, at: Moment) -> None:
        answer = item.bundle_answer
        self._placed(self._placement.bundle_answer(node_id, answer, at.mono_ms, at.wall_ms))

    def _owner_ended(self, _node_id: bytes, item: ns.AgentItem, at: Moment) -> None:
        ended = item.owner_ended
        if ended.suspected and self._drivers.look_now(ended.owner_id):
            return
        self._owner_endings.end([ended.owner_id], ended.message or "its process ended", at)

    def _detached_event(self, node_id: bytes, item: ns.AgentItem, at: Moment) -> None:
        if is_known_event(item.detached_actor):
            self._detached.event(node_id, item.detached_actor, at)

    def _ping_answer(self, node_id: bytes, item: ns.AgentItem, _at: Moment) -> None:
        lag_ms = item.ping_answer.loop_lag_ms
        self._membership.liveness.answered_ping(node_id, lag_ms)

    def _drain_answer(self, node_id: bytes, item: ns.AgentItem, at: Moment) -> None:
        entry = self._membership.nodes.get_alive(node_id)
        if entry is None:
            return
        answer = item.drain_answer
        asked = self._membership.take_asked(node_id)
        was_draining = entry.record.state == t.NODE_STATE_DRAINING
        if answer.accepted and not was_draining and (asked is not None or answer.reason):
            # Without an order of ours it drains by itself: somebody told its process to end.
            command = asked or ns.DrainCommand(
                reason=answer.reason, message=answer.message, deadline_ms=answer.deadline_ms
            )
            self._membership.drain(entry, command, told=False)
            self._placed(self._placement.node_draining(node_id, draining=True, now_ms=at.mono_ms))
        elif not answer.accepted and was_draining:
            # Loaded or recorded without its word, and it has work: it takes work again.
            self._membership.drain(entry, ns.DrainCommand(cancel=True))
            self._placed(self._placement.node_draining(node_id, draining=False, now_ms=at.mono_ms))
        self._out.append(fx.DrainSettled(node_id, answer.accepted, answer.message))

    def _node_question(self, node_id: bytes, item: ns.AgentItem, _at: Moment) -> None:
        asked = item.node_question.node_id
        alive = self._membership.nodes.get_alive(asked) is not None
        answer = ns.NodeAnswer(node_id=asked, alive=alive)
        self._membership.send(node_id, ns.GcsItem(node_id=node_id, node_answer=answer))

    def _goodbye(self, node_id: bytes, item: ns.AgentItem, at: Moment) -> None:
        cause = node_cause(item.goodbye.cause)
        self._node_deaths.died(node_id, cause, item.goodbye.message or "the agent said goodbye", at)
