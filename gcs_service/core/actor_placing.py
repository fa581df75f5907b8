"""Where a detached actor goes: its bundle's node, its affinity, or any node that has room."""

from __future__ import annotations

import msgspec

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common import labels
from gcs_service.core.placement.placement_core import PlacementCore
from gcs_service.core.placement.single import PickRequest

NODE_GONE = "node_gone"
INFEASIBLE = "infeasible"
"""Tokens of `NodePick.reason`."""


class Target(msgspec.Struct, frozen=True, gc=False):
    """The node an actor is being started on; `reservation_seq` 0: nothing is reserved there."""

    node_id: bytes
    reservation_seq: int


class NoTarget(msgspec.Struct, frozen=True, gc=False):
    """No node now; none could ever hold it (`is_infeasible`); or it can never run (`is_final`)."""

    message: str
    is_final: bool = False
    is_infeasible: bool = False
    cause: t.ActorDeathCause.ValueType = t.ACTOR_DEATH_CAUSE_UNSCHEDULABLE


def needed_by(request: g.CreateDetachedActorRequest) -> t.ResourceSet:
    """What must be free to place it."""
    start = request.start
    return start.placement_resources if start.placement_resources.amounts else start.resources


def wrong_in(request: g.CreateDetachedActorRequest) -> str:
    """What makes it impossible to look for a node at all; empty when nothing does."""
    start, scheduling = request.start, request.scheduling
    for amounts in (start.resources.amounts, start.placement_resources.amounts):
        for name in sorted(amounts):
            if amounts[name] < 0:
                return f"resource {name!r} is below zero"
    try:
        for selector in (scheduling.selector, *scheduling.fallback):
            labels.parse_selector(selector.terms)
    except ValueError as error:
        return str(error)
    return ""


def choose_target(
    placement: PlacementCore, request: g.CreateDetachedActorRequest, on: bytes
) -> Target | NoTarget:
    """A node and a reservation on it. `on`: the node it was sent to before; asked again there."""
    start = request.start
    if start.placement_group_id:
        return _in_group(placement, start.placement_group_id, start.bundle_index)
    needed = dict(needed_by(request).amounts)
    if on:
        return Target(on, placement.reserve(on, needed))
    scheduling = request.scheduling
    message, infeasible = "", True
    for selector in (scheduling.selector, *scheduling.fallback):
        pick = placement.pick_node(
            PickRequest(
                resources=needed,
                selector=labels.parse_selector(selector.terms),
                node_id=scheduling.affinity_node_id,
                soft=scheduling.affinity_soft,
                spread=scheduling.spread,
            )
        )
        if pick.node_id:
            return Target(pick.node_id, placement.reserve(pick.node_id, needed))
        if pick.reason == NODE_GONE:
            return NoTarget(pick.message, is_final=True)
        message = message or pick.message
        infeasible = infeasible and pick.reason == INFEASIBLE
    return NoTarget(message, is_infeasible=infeasible)


def _in_group(placement: PlacementCore, group_id: bytes, index: int) -> Target | NoTarget:
    record = placement.record(group_id)
    gone = (pg.PLACEMENT_GROUP_STATE_REMOVED, pg.PLACEMENT_GROUP_STATE_REMOVING)
    if record is None or record.state in gone:
        return NoTarget(
            f"placement group {group_id.hex()} does not exist any more",
            is_final=True,
            cause=t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED,
        )
    bundles = len(record.spec.bundles)
    if index >= bundles:
        return NoTarget(
            f"bundle index {index}: placement group {group_id.hex()} has 0 .. {bundles - 1}",
            is_final=True,
        )
    if record.state != pg.PLACEMENT_GROUP_STATE_CREATED:
        return NoTarget(f"placement group {group_id.hex()} is not placed yet: {record.message}")
    nodes = [record.bundle_nodes[index]] if index >= 0 else list(record.bundle_nodes)
    placed = [node_id for node_id in nodes if node_id]
    if not placed:
        return NoTarget(f"bundle {index} of placement group {group_id.hex()} is being moved")
    return Target(placed[0], 0)
