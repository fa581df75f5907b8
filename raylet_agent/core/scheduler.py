"""Which node should hold a lease: the scheduler role's decision over its views."""

from __future__ import annotations

from random import Random

import msgspec

from cluster_api.v1 import agent_pb2 as a
from cluster_common import resources
from raylet_agent import limits
from raylet_agent.core.node_views import NodeView, NodeViews
from raylet_agent.core.room_index import RoomIndex, Selector
from raylet_agent.core.shape import Shape


class Chosen(msgspec.Struct, frozen=True):
    """Send it there (or keep it, when it is the own node)."""

    view: NodeView


class NoRoom(msgspec.Struct, frozen=True, gc=False):
    """Nodes that could hold it exist, none has room now."""


class Infeasible(msgspec.Struct, frozen=True, gc=False):
    """No node now in the cluster could ever hold it."""

    message: str


class UnknownNode(msgspec.Struct, frozen=True, gc=False):
    """It is bound to a node that is neither in view nor known to be dead: it may just join."""


class Unschedulable(msgspec.Struct, frozen=True, gc=False):
    """It can never run: its node is gone or too small."""

    message: str


Choice = Chosen | NoRoom | Infeasible | UnknownNode | Unschedulable


class Scheduler:
    """Choices over `views`. The queue of what found no room is the caller's."""

    def __init__(self, node_id: bytes, views: NodeViews, random: Random) -> None:
        self._node_id = node_id
        self.views = views
        self._random = random
        self._indexes: dict[tuple[Shape, Selector], RoomIndex] = {}
        self._last_spread = b""
        self._last_scattered = b""

    def choose(self, shape: Shape, excluded: dict[bytes, int], *, unknown_is_gone: bool) -> Choice:
        """The node for one lease.

        Args:
            shape: what it needs.
            excluded: nodes that rejected it, with the version of the view it was chosen by; they
            count
                again as soon as a newer view came.
            unknown_is_gone: a node it is bound to and that nobody here heard of counts as gone;
                else that is answered with `UnknownNode`.
        """
        if shape.affinity:
            unknown = self.views.get(shape.affinity) is None
            if unknown and not unknown_is_gone and not self.views.is_dead(shape.affinity):
                return UnknownNode()
            choice = self._affine(shape, excluded)
            if choice is not None:
                return choice
        feasible_exists = False
        for selector in shape.selectors:
            index = self._index(shape, selector)
            view = self._pick(index, shape, excluded)
            if view is not None:
                return Chosen(view)
            feasible_exists = feasible_exists or index.is_feasible(self.views.own)
        if feasible_exists:
            return NoRoom()
        return Infeasible(self._why_infeasible(shape))

    def can_try(self, view: NodeView, shape: Shape) -> bool:
        """Whether a change of this node alone may help a waiting lease of the shape."""
        return view.has_room(shape)

    def _affine(self, shape: Shape, excluded: dict[bytes, int]) -> Choice | None:
        view = self.views.get(shape.affinity)
        drains = view is not None and view.draining
        if view is not None and not drains and view.feasible(shape):
            if view.has_room(shape) and excluded.get(view.node_id, -1) < view.version:
                return Chosen(view)
            return NoRoom()
        if shape.affinity_soft:
            return None
        if view is None:
            return Unschedulable(f"node {shape.affinity.hex()} is not in the cluster")
        if drains:
            return Unschedulable(f"node {shape.affinity.hex()} drains and takes no work any more")
        needs, has = resources.text(shape.needed()), resources.text(view.counted)
        return Unschedulable(f"node {shape.affinity.hex()} has {has}, {needs} are needed")

    @property
    def indexes_count(self) -> int:
        """Shapes for which nodes are kept in order."""
        return len(self._indexes)

    def _index(self, shape: Shape, selector: Selector) -> RoomIndex:
        """Brought up to date; the shape that was asked for longest ago makes room for a new one."""
        key = (shape, selector)
        index = self._indexes.pop(key, None) or RoomIndex(self.views, shape, selector)
        if len(self._indexes) >= limits.ROOM_INDEXES_MAX:
            del self._indexes[next(iter(self._indexes))]
        self._indexes[key] = index
        index.refresh()
        return index

    def _pick(self, index: RoomIndex, shape: Shape, excluded: dict[bytes, int]) -> NodeView | None:
        own = self.views.own
        if shape.strategy == a.SCHEDULING_STRATEGY_SPREAD:
            view = index.next_after(self._last_spread, excluded, own)
            self._last_spread = self._last_spread if view is None else view.node_id
            return view
        if shape.scattered:
            view = index.next_after(self._last_scattered, excluded, own)
            self._last_scattered = self._last_scattered if view is None else view.node_id
            return view
        return index.emptiest(excluded, own, self._random)

    def _why_infeasible(self, shape: Shape) -> str:
        rows = self.views.rows()
        large = sum(1 for view in rows if view.feasible(shape))
        needs = resources.text(shape.needed())
        if large:
            wanted = " or ".join(
                "{" + ", ".join(f"{term.key}" for term in selector) + "}"
                for selector in shape.selectors
            )
            some = f"{large} of {len(rows)} nodes are large enough for {needs}"
            return f"{some}, none has the labels {wanted}"
        return f"none of the {len(rows)} nodes can ever hold {needs}"
