"""Nodes with room for one kind of request, in the order in which they are chosen.

Looking at every node for every request costs what the cluster is large: placing 20,000 requests on
200 nodes took 11 s, most of it in the scheduler. Requests of one shape come in numbers, and between
two of them one or two views changed. So for each shape in use there is a sorted list, brought up to
date from the log of changes when the shape is asked for; one that nobody asks for costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from random import Random
from typing import TYPE_CHECKING

from cluster_common import labels
from cluster_common.resources import DEVICE_RESOURCES
from raylet_agent import limits
from raylet_agent.core.shape import Shape

if TYPE_CHECKING:
    from raylet_agent.core.node_views import NodeView, NodeViews

Selector = tuple[labels.Term, ...]
_Rank = tuple[bool, ...]
"""Which devices a node has that the shape does not need: work keeps off those nodes."""


class ChangeLog:
    """Which nodes' views changed, in order; readers remember how far they read."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._dropped = 0

    @property
    def end(self) -> int:
        """Where a reader is who knows everything."""
        return self._dropped + len(self._nodes)

    def add(self, node_id: bytes) -> None:
        """A view changed. A reader that is far behind looks at everything again."""
        self._nodes.append(node_id)
        if len(self._nodes) > limits.VIEW_CHANGES_KEPT_MAX:
            half = len(self._nodes) // 2
            del self._nodes[:half]
            self._dropped += half

    def since(self, position: int) -> list[bytes] | None:
        """Changes after a position; None: some of them are forgotten."""
        if position < self._dropped:
            return None
        return self._nodes[position - self._dropped :]


class RoomIndex:
    """Nodes that pass one selector of a shape, but for the own one, whose truth needs no view."""

    def __init__(self, views: NodeViews, shape: Shape, selector: Selector) -> None:
        self._views = views
        self._shape = shape
        self._selector = selector
        names = {name for name, _ in shape.need}
        self._avoided = tuple(each for each in DEVICE_RESOURCES if each not in names)
        self._position = -1
        self._feasible: set[bytes] = set()
        self._places: dict[bytes, tuple[_Rank, float]] = {}
        self._by_rank: dict[_Rank, list[tuple[float, bytes]]] = {}
        self._by_id: list[bytes] = []

    def refresh(self) -> None:
        """Takes over what changed since it was asked last."""
        log = self._views.log
        changed = log.since(self._position) if self._position >= 0 else None
        if changed is None or len(changed) > len(self._views):
            changed = [*self._views.ids(), *self._feasible]
        self._position = log.end
        for node_id in dict.fromkeys(changed):
            self._update(node_id)

    def _update(self, node_id: bytes) -> None:
        view = self._views.get(node_id)
        place: tuple[_Rank, float] | None = None
        self._feasible.discard(node_id)
        if view is not None and view.own is None and self._could_hold(view):
            self._feasible.add(node_id)
            if view.has_room(self._shape):
                place = (self._rank(view), view.utilisation())
        before = self._places.get(node_id)
        if before == place:
            return
        if before is not None:
            line = self._by_rank[before[0]]
            del line[bisect_left(line, (before[1], node_id))]
            del self._places[node_id]
        if place is not None:
            insort(self._by_rank.setdefault(place[0], []), (place[1], node_id))
            self._places[node_id] = place
        if before is None:
            insort(self._by_id, node_id)
        elif place is None:
            del self._by_id[bisect_left(self._by_id, node_id)]

    def _could_hold(self, view: NodeView) -> bool:
        if self._selector and not labels.matches(self._selector, view.labels):
            return False
        return view.feasible(self._shape)

    def _rank(self, view: NodeView) -> _Rank:
        return tuple(view.total.get(name, 0) > 0 for name in self._avoided)

    def is_feasible(self, own: NodeView | None) -> bool:
        """Whether some node could hold it when empty."""
        return bool(self._feasible) or (own is not None and self._could_hold(own))

    def _usable_own(self, own: NodeView | None) -> NodeView | None:
        if own is None or not self._could_hold(own) or not own.has_room(self._shape):
            return None
        return own

    def emptiest(
        self, excluded: dict[bytes, int], own: NodeView | None, random: Random
    ) -> NodeView | None:
        """The own node if none is emptier, else a random one of the emptiest fifth."""
        own = self._usable_own(own)
        for rank in sorted(self._by_rank):
            line = self._not_excluded(self._by_rank[rank], excluded)
            if own is not None and self._rank(own) <= rank:
                best = line[0][0] if line else 1.0
                if self._rank(own) < rank or own.utilisation() <= best:
                    return own
            if line:
                count = max(1, len(line) // limits.HYBRID_TOP_SHARE)
                return self._views.get(line[random.randrange(count)][1])
        return own

    def next_after(
        self, last: bytes, excluded: dict[bytes, int], own: NodeView | None
    ) -> NodeView | None:
        """Round robin: the next node with room in order of node id."""
        own = self._usable_own(own)
        ids = self._by_id
        start = bisect_right(ids, last)
        for offset in range(len(ids)):
            node_id = ids[(start + offset) % len(ids)]
            view = self._views.get(node_id)
            if view is None or _is_excluded(view, excluded):
                continue
            if own is None or (node_id <= last, node_id) < (own.node_id <= last, own.node_id):
                return view
            return own
        return own

    def _not_excluded(
        self, line: list[tuple[float, bytes]], excluded: dict[bytes, int]
    ) -> list[tuple[float, bytes]]:
        if not excluded:
            return line
        rejecting = {
            node_id
            for node_id in excluded
            if (view := self._views.get(node_id)) is not None and _is_excluded(view, excluded)
        }
        return [row for row in line if row[1] not in rejecting] if rejecting else line


def _is_excluded(view: NodeView, excluded: dict[bytes, int]) -> bool:
    return excluded.get(view.node_id, -1) >= view.version
