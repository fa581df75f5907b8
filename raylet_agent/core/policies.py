"""How a scheduler chooses among nodes with room: hybrid, spread, affinity.

No state but the cursor.
"""

from __future__ import annotations

import heapq
from random import Random

from cluster_common.resources import DEVICE_RESOURCES
from raylet_agent import limits
from raylet_agent.core.node_views import NodeView
from raylet_agent.core.shape import Shape


def hybrid(candidates: list[NodeView], preferred: bytes, random: Random) -> NodeView:
    """The preferred node if none is emptier, else a random one of the emptiest fifth.

    Args:
        candidates: nodes with room, by node id, at least one.
        preferred: id of the local node.
        random: the core's seeded source.
    """
    scored = [(view.utilisation(), view.node_id, view) for view in candidates]
    count = max(1, len(scored) // limits.HYBRID_TOP_SHARE)
    best = heapq.nsmallest(count, scored, key=lambda row: (row[0], row[1]))
    for score, node_id, view in scored:
        if node_id == preferred and score <= best[0][0]:
            return view
    return random.choice(best)[2]


def without_devices_first(candidates: list[NodeView], shape: Shape) -> list[NodeView]:
    """Work that needs no device keeps off nodes that have some, while there are others."""
    names = {name for name, _ in shape.need}
    for resource in DEVICE_RESOURCES:
        if resource not in names:
            plain = [view for view in candidates if not view.total.get(resource, 0)]
            candidates = plain or candidates
    return candidates


class SpreadCursor:
    """Round robin over nodes: the next one in order of node id after the last one used."""

    def __init__(self) -> None:
        self._last = b""

    def choose(self, candidates: list[NodeView]) -> NodeView:
        """The next node with room; `candidates` by node id, at least one."""
        chosen = next((view for view in candidates if view.node_id > self._last), candidates[0])
        self._last = chosen.node_id
        return chosen
