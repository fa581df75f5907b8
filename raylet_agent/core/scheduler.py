"""Which node should hold a lease: the scheduler role's decision over its views."""

from __future__ import annotations

from random import Random

import msgspec

from cluster_api.v1 import agent_pb2 as a
from cluster_common import resources
from raylet_agent.core import policies
from raylet_agent.core.node_views import NodeView, NodeViews, matching
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
        self._spread = policies.SpreadCursor()
        self._scatter = policies.SpreadCursor()

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
            rows = [
                view
                for view in self.views.rows()
                if (not selector or matching(view, selector)) and view.feasible(shape)
            ]
            feasible_exists = feasible_exists or bool(rows)
            free = [
                view
                for view in rows
                if excluded.get(view.node_id, -1) < view.version and view.has_room(shape)
            ]
            if free:
                return Chosen(self._pick(free, shape))
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
        needs, has = resources.text(shape.needed()), resources.text(view.total)
        return Unschedulable(f"node {shape.affinity.hex()} has {has}, {needs} are needed")

    def _pick(self, free: list[NodeView], shape: Shape) -> NodeView:
        if shape.strategy == a.SCHEDULING_STRATEGY_SPREAD:
            return self._spread.choose(free)
        if shape.scattered:
            return self._scatter.choose(free)
        free = policies.without_devices_first(free, shape)
        return policies.hybrid(free, self._node_id, self._random)

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
