"""Views of the nodes that an agent with the scheduler role may choose, its own included.

A view is the newest snapshot minus optimistic deductions: leases sent there that the snapshot may
not contain yet. A deduction ends when the snapshot covers it, the owner says the lease is off, or
its time is up: each by itself, never a reset of the whole view (FIELD_REPORTS: resets made full
nodes look free).
"""

from __future__ import annotations

import msgspec

from cluster_api.v1 import node_session_pb2 as n
from cluster_common import labels, resources
from cluster_common.resources import Vector
from raylet_agent import limits
from raylet_agent.core import devices
from raylet_agent.core.resource_pool import ResourcePool
from raylet_agent.core.shape import Shape


class Deduction(msgspec.Struct, frozen=True, gc=False):
    """Room of one lease that was sent to a node."""

    amounts: Vector
    made_ms: int


class NodeView(msgspec.Struct):
    """One node as the scheduler sees it. For its own node `own` is the truth itself."""

    node_id: bytes
    address: str
    labels: dict[str, str]
    total: Vector
    available: Vector
    device_free: dict[str, list[int]]
    version: int = 0
    draining: bool = False
    deductions: dict[bytes, Deduction] = {}
    own: ResourcePool | None = None

    def feasible(self, shape: Shape) -> bool:
        """Whether the empty node could hold the shape."""
        if self.own is not None:
            return self.own.could_ever_hold(shape.needed())
        return all(self.total.get(name, 0) >= amount for name, amount in shape.need)

    def has_room(self, shape: Shape) -> bool:
        """Whether it seems to fit now."""
        if self.draining:
            return False
        if self.own is not None:
            return self.own.lacks(shape.needed()) is None
        for name, amount in shape.need:
            if self.available.get(name, 0) < amount:
                return False
            free = self.device_free.get(name)
            if free is not None and not devices.can_hold(free, amount):
                return False
        return True

    def utilisation(self) -> float:
        """Share in use of the most used resource, 0 .. 1; below the threshold counts as 0."""
        available = self.available if self.own is None else self.own.available
        worst = 0.0
        for name, total in self.total.items():
            if total > 0:
                worst = max(worst, 1.0 - available.get(name, 0) / total)
        return worst if worst >= limits.HYBRID_UTILISATION_FREE else 0.0


class NodeViews:
    """Views by node id. Decisions iterate them in the order of node ids."""

    def __init__(self) -> None:
        self._views: dict[bytes, NodeView] = {}
        self._sorted: list[NodeView] | None = None
        self._lease_node: dict[bytes, bytes] = {}
        self._dead: dict[bytes, None] = {}
        self.touched: dict[bytes, None] = {}
        """Nodes that may have more room than at the last pass over the waiting requests."""
        self.node_lost = False
        """Whether a node went since the last pass."""

    def __len__(self) -> int:
        return len(self._views)

    def get(self, node_id: bytes) -> NodeView | None:
        """One view."""
        return self._views.get(node_id)

    def is_dead(self, node_id: bytes) -> bool:
        """Whether the node's death was told here; node ids never come back."""
        return node_id in self._dead

    def rows(self) -> list[NodeView]:
        """All views, by node id."""
        if self._sorted is None:
            self._sorted = [self._views[node_id] for node_id in sorted(self._views)]
        return self._sorted

    def put_own(self, view: NodeView) -> None:
        """This agent's own node, backed by its ledger."""
        assert view.own is not None
        self._views[view.node_id] = view
        self._sorted = None

    def received(self, item: n.NodeView, now_ms: int) -> None:
        """A view came; an older one than the known is ignored."""
        known = self._views.get(item.node_id)
        if known is not None and known.own is not None:
            return
        if not item.alive:
            self.lost(item.node_id)
            return
        snapshot = item.snapshot
        if known is not None and snapshot.version < known.version:
            return
        deductions = {} if known is None else _uncovered(known, snapshot, now_ms)
        for lease_id in known.deductions if known is not None else ():
            if lease_id not in deductions:
                self._lease_node.pop(lease_id, None)
        view = NodeView(
            node_id=item.node_id,
            address=item.address,
            labels=dict(snapshot.labels),
            total=dict(snapshot.total.amounts),
            available=dict(snapshot.available.amounts),
            device_free={name: list(each.free) for name, each in snapshot.devices.items()},
            version=snapshot.version,
            draining=snapshot.draining,
            deductions=deductions,
        )
        for deduction in deductions.values():
            resources.subtract(view.available, deduction.amounts)
        self._views[item.node_id] = view
        self._sorted = None
        self.touched[item.node_id] = None

    def lost(self, node_id: bytes) -> None:
        """The node is dead, whether or not it was ever in view."""
        known = self._views.get(node_id)
        if known is not None and known.own is not None:
            return
        if node_id not in self._dead:
            self._dead[node_id] = None
            self.node_lost = True
            if len(self._dead) > limits.DEAD_NODES_REMEMBERED_MAX:
                del self._dead[next(iter(self._dead))]
        if known is None:
            return
        del self._views[node_id]
        for lease_id in known.deductions:
            self._lease_node.pop(lease_id, None)
        self._sorted = None
        self.node_lost = True

    def deduct(self, view: NodeView, lease_id: bytes, amounts: Vector, now_ms: int) -> None:
        """A lease was sent to this node. Devices are not deducted: the node decides on them."""
        if view.own is not None:
            return
        assert lease_id not in self._lease_node, f"lease {lease_id.hex()} is deducted already"
        view.deductions[lease_id] = Deduction(amounts, now_ms)
        resources.subtract(view.available, amounts)
        self._lease_node[lease_id] = view.node_id

    def sent_to(self, lease_id: bytes) -> NodeView | None:
        """Where a lease was sent not long ago."""
        node_id = self._lease_node.get(lease_id)
        return None if node_id is None else self._views.get(node_id)

    def undo(self, lease_id: bytes) -> None:
        """The lease is not on that node (any more)."""
        node_id = self._lease_node.pop(lease_id, None)
        view = self._views.get(node_id) if node_id is not None else None
        if view is None:
            return
        resources.add(view.available, view.deductions.pop(lease_id).amounts)
        self.touched[view.node_id] = None

    def deducted(self) -> list[bytes]:
        """Leases with a deduction, oldest first."""
        return list(self._lease_node)

    def expired(self, now_ms: int) -> list[bytes]:
        """Leases whose deduction is too old, oldest first."""
        old: list[bytes] = []
        for lease_id, node_id in self._lease_node.items():
            made_ms = self._views[node_id].deductions[lease_id].made_ms
            if now_ms - made_ms < limits.DEDUCTION_MS:
                break
            old.append(lease_id)
        return old


def matching(view: NodeView, selector: tuple[labels.Term, ...]) -> bool:
    """Whether the node's labels pass the selector."""
    return labels.matches(selector, view.labels)


def _uncovered(
    known: NodeView, snapshot: n.ResourceSnapshot, now_ms: int
) -> dict[bytes, Deduction]:
    """Deductions that the new snapshot does not contain yet.

    Oldest first, each is covered if the availability fell by at least its amounts since the
    snapshot before, or if the snapshot came long after it. A release in the same snapshot can hide
    the fall: then the deduction stays until its time is up, which errs on the safe side.
    """
    if snapshot.version == known.version:
        return dict(known.deductions)
    before = dict(known.available)
    for deduction in known.deductions.values():
        resources.add(before, deduction.amounts)
    fall: Vector = {}
    for name, amount in before.items():
        difference = amount - snapshot.available.amounts.get(name, 0)
        if difference > 0:
            fall[name] = difference
    left: dict[bytes, Deduction] = {}
    for lease_id, deduction in known.deductions.items():
        if now_ms - deduction.made_ms >= limits.DEDUCTION_SETTLED_MS:
            continue
        if resources.fits(deduction.amounts, fall):
            resources.subtract(fall, deduction.amounts)
        else:
            left[lease_id] = deduction
    return left
