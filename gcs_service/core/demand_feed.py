"""Collects what a batch of the core changed for the demand table. Work grows with what changed."""

from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.actor_placing import needed_by
from gcs_service.core.demand_facts import DemandUpdate, GroupFact, NodeFact
from gcs_service.core.detached_actor import DetachedActor
from gcs_service.core.detached_actors import DetachedActors
from gcs_service.core.moment import Moment
from gcs_service.core.node_table import NodeTable
from gcs_service.core.placement.group import Group
from gcs_service.core.placement.placement_core import PlacementCore

_INFEASIBLE = "infeasible"


class DemandFeed:
    """Notes changes while a batch runs; `take` turns them into facts at its end."""

    def __init__(
        self, nodes: NodeTable, placement: PlacementCore, detached: DetachedActors
    ) -> None:
        self._nodes = nodes
        self._placement = placement
        self._detached = detached
        self._touched: dict[bytes, None] = {}
        self._reports: list[tuple[bytes, ns.DemandReport | None]] = []
        self._waiting_actors: list[tuple[bytes, bool]] = []

    def node_changed(self, node_id: bytes) -> None:
        """Its record, snapshot or state changed."""
        self._touched[node_id] = None

    def reported(self, node_id: bytes, report: ns.DemandReport | None) -> None:
        """An agent's whole demand; None: it begins anew, or is gone."""
        self._reports.append((node_id, report))

    def take(self, at: Moment) -> DemandUpdate | None:
        """Everything since the last call; None when nothing changed."""
        touched = self._placement.take_touched_nodes()
        self._touched |= touched
        groups = self._placement.take_changed_waits()
        detached = self._changed_detached()
        if not (self._touched or self._reports or groups or detached is not None):
            return None
        update = DemandUpdate(
            nodes={node_id: self._node(node_id, at) for node_id in self._touched},
            reports=self._reports,
            groups={group_id: _group(group) for group_id, group in groups.items()},
            detached=detached,
        )
        self._touched = {}
        self._reports = []
        return update

    def _node(self, node_id: bytes, at: Moment) -> NodeFact | None:
        entry = self._nodes.get_alive(node_id)
        if entry is None:
            return None
        return NodeFact(
            record=entry.record,
            snapshot=entry.snapshot,
            room=self._placement.room_of(node_id),
            seen_ms=at.mono_ms,
        )

    def _changed_detached(self) -> list[ns.DemandEntry] | None:
        if not self._detached.waiting_count and not self._waiting_actors:
            return None
        # Actors inside a group are no demand of their own: the group's bundles are.
        actors = [
            actor
            for actor in self._detached.waiting()
            if not actor.request.start.placement_group_id
        ]
        waiting = [(actor.machine.actor_id, actor.is_infeasible) for actor in actors]
        if waiting == self._waiting_actors:
            return None
        self._waiting_actors = waiting
        return [actor_demand(actor) for actor in actors]


def actor_demand(actor: DetachedActor) -> ns.DemandEntry:
    """What a detached actor without a node waits for."""
    return ns.DemandEntry(
        resources=needed_by(actor.request),
        selector=actor.request.scheduling.selector,
        count=1,
        infeasible=actor.is_infeasible,
    )


def _group(group: Group | None) -> GroupFact | None:
    """The bundles of a waiting group that have no place; its own nodes are no place for them."""
    if group is None:
        return None
    spread = group.spec.strategy == pg.PLACEMENT_STRATEGY_STRICT_SPREAD
    holders = tuple(node.node_id for node in group.nodes if node is not None) if spread else ()
    return GroupFact(
        order=group.order,
        spec=group.spec,
        missing=group.missing,
        packed_labels=tuple(group.request.packed_labels),
        domain=group.domain,
        infeasible=_reason(group) == _INFEASIBLE,
        holders=holders,
    )


def _reason(group: Group) -> str:
    wait = group.wait_class
    return wait.head.reason if wait is not None and wait.failed else ""
