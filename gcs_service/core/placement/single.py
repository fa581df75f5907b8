"""One node for one lease of the GCS itself (detached actors)."""

from __future__ import annotations

import random

import msgspec

from cluster_common.identity_resources import is_identity
from cluster_common.labels import Term, matches
from cluster_common.resources import text
from gcs_service.core.placement.amounts import Amounts
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.room_class import RoomClass
from gcs_service.core.placement.state import PlacementState

INFEASIBLE = "infeasible"
NO_ROOM = "insufficient_free"
NODE_GONE = "node_gone"
BUSY_THRESHOLD_PERCENT = 50
"""Utilisation below this counts as none, so that work does not wander for small differences."""
BEST_SHARE = 0.2
"""The node is drawn from this share of the equally good ones.

So that they do not all take the same.
"""


class PickRequest(msgspec.Struct, frozen=True, gc=False):
    """What the lease needs; `node_id` is an affinity, hard unless `soft`.

    `spread`: nodes take turns instead of the hybrid rule.
    """

    resources: dict[str, int]
    selector: tuple[Term, ...] = ()
    node_id: bytes = b""
    soft: bool = False
    spread: bool = False


class NodePick(msgspec.Struct, frozen=True, gc=False):
    """The node, or (`node_id` empty) why there is none.

    Infeasible, insufficient_free, node_gone.
    """

    node_id: bytes
    reason: str
    message: str


def pick(state: PlacementState, dice: random.Random, request: PickRequest) -> NodePick:
    """The hybrid rule: under half used is as good as empty, then the least used.

    Dice among equals. With `spread` the next node with room, by id.
    """
    amounts = state.table.intern(request.resources)
    state.asks((amounts,))
    if request.node_id:
        found = _affine(state, request, amounts)
        if found is not None:
            return found
    if request.spread:
        node = _next_in_turn(state, request, amounts)
    else:
        node = _least_used(state, dice, request, amounts)
    if node is not None:
        return NodePick(node.node_id, "", "")
    need = text(request.resources)
    for room in state.totals.pool(request.selector).members:
        if room.capacity(amounts):
            return NodePick(b"", NO_ROOM, f"no node has {need} free now")
    return NodePick(b"", INFEASIBLE, f"no node could ever hold {need} with these labels")


def _affine(state: PlacementState, request: PickRequest, amounts: Amounts) -> NodePick | None:
    """The wanted node's verdict; None when a soft affinity may go elsewhere."""
    node = state.nodes.get(request.node_id)
    name = request.node_id.hex()
    if node is None or not node.joined:
        return None if request.soft else NodePick(b"", NODE_GONE, f"node {name} is not alive")
    room = state.index.class_of(node)
    if room is not None and room.capacity(amounts) and matches(request.selector, node.labels):
        return NodePick(node.node_id, "", "")
    if request.soft:
        return None
    if not node.total_class.capacity(amounts) or not matches(request.selector, node.labels):
        return NodePick(b"", INFEASIBLE, f"node {name} could never hold {text(request.resources)}")
    return NodePick(b"", NO_ROOM, f"node {name} has not {text(request.resources)} free now")


def _least_used(
    state: PlacementState, dice: random.Random, request: PickRequest, amounts: Amounts
) -> NodeRoom | None:
    """Looks at classes, then draws among the nodes of the best ones."""
    pool = state.index.pool(request.selector)
    best: list[NodeRoom] = []
    best_score: tuple[bool, int] | None = None
    for room, nodes in pool.members.items():
        if not room.capacity(amounts):
            continue
        wasteful = room.wastes_devices_on(amounts)
        if best_score is not None and wasteful and not best_score[0]:
            continue
        scores: dict[RoomClass, tuple[bool, int]] = {}
        for node in nodes:
            total = node.total_class
            score = scores.get(total)
            if score is None:
                score = scores[total] = (wasteful, _use_percent(total.room, room.room))
            if best_score is None or score < best_score:
                best_score, best = score, [node]
            elif score == best_score:
                best.append(node)
    if not best:
        return None
    return best[dice.randrange(max(1, int(len(best) * BEST_SHARE)))]


def _next_in_turn(state: PlacementState, request: PickRequest, amounts: Amounts) -> NodeRoom | None:
    """The node with room that follows the last one taken so, in order of ids."""
    last = state.spread_last
    best: NodeRoom | None = None
    for room, nodes in state.index.pool(request.selector).members.items():
        if not room.capacity(amounts):
            continue
        for node in nodes:
            turn = (node.node_id <= last, node.node_id)
            if best is None or turn < (best.node_id <= last, best.node_id):
                best = node
    if best is not None:
        state.spread_last = best.node_id
    return best


def _use_percent(total: dict[str, int], free: dict[str, int]) -> int:
    """Use of the node's fullest resource, 0 below the threshold."""
    percent = max(
        (
            100 - free.get(name, 0) * 100 // amount
            for name, amount in total.items()
            if not is_identity(name)
        ),
        default=0,
    )
    return percent if percent >= BUSY_THRESHOLD_PERCENT else 0
