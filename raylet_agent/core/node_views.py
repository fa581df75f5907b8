"""Views of the nodes that an agent with the scheduler role may choose, its own included.

A view is the newest snapshot minus optimistic deductions: leases sent there that the snapshot does
not contain yet. A deduction ends when a snapshot says that the request came (`sendings`), the owner
says the lease is off, the owner dies, or its time is up: each by itself, never a reset of the whole
view (FIELD_REPORTS: resets made full nodes look free). How late snapshots come does not matter to
that. Snapshots come from the GCS, and with requests that a node rejected.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_common import resources
from cluster_common.identity_resources import identity_of
from cluster_common.resources import Vector
from raylet_agent import limits
from raylet_agent.core import devices
from raylet_agent.core.resource_pool import ResourcePool
from raylet_agent.core.room_index import ChangeLog
from raylet_agent.core.sendings import is_seen
from raylet_agent.core.shape import Shape


class Deduction(msgspec.Struct, frozen=True, gc=False):
    """Room of one lease that was sent to a node; `number`: which one of those sent there."""

    amounts: Vector
    made_ms: int
    number: int


class NodeView(msgspec.Struct):
    """One node as the scheduler sees it. For its own node `own` is the truth itself.

    `counted`: the total without `names`, which only name the node and make it no fuller.
    """

    node_id: bytes
    address: str
    labels: dict[str, str]
    total: Vector
    available: Vector
    device_free: dict[str, list[int]]
    counted: Vector
    names: Vector
    version: int = 0
    draining: bool = False
    is_head: bool = False
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
        for name, total in self.counted.items():
            if total > 0:
                worst = max(worst, 1.0 - available.get(name, 0) / total)
        return worst if worst >= limits.HYBRID_UTILISATION_FREE else 0.0


class NodeViews:
    """Views by node id. Decisions iterate them in the order of node ids."""

    def __init__(self) -> None:
        self._views: dict[bytes, NodeView] = {}
        self._sorted: list[NodeView] | None = None
        self._sent: dict[bytes, int] = {}
        self._own: NodeView | None = None
        self.log = ChangeLog()
        """Which views changed, for those who keep something by them."""
        self._lease_node: dict[bytes, bytes] = {}
        self._dead: dict[bytes, None] = {}
        self.touched: dict[bytes, None] = {}
        """Nodes that may have more room than at the last pass over the waiting requests."""
        self.node_lost = False
        """Whether a node went since the last pass."""

    def __len__(self) -> int:
        return len(self._views)

    @property
    def dead_count(self) -> int:
        """Nodes remembered as dead."""
        return len(self._dead)

    def get(self, node_id: bytes) -> NodeView | None:
        """One view."""
        return self._views.get(node_id)

    @property
    def own(self) -> NodeView | None:
        """This agent's own node."""
        return self._own

    def ids(self) -> list[bytes]:
        """Of all nodes in view."""
        return list(self._views)

    def versions(self, node_ids: Iterable[bytes]) -> dict[bytes, int]:
        """Of those of these nodes that are in view, but for the own one."""
        views = self._views
        known = (views[node_id] for node_id in node_ids if node_id in views)
        return {view.node_id: view.version for view in known if view.own is None}

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
        self._own = view
        self._views[view.node_id] = view
        self._sorted = None
        self.log.add(view.node_id)

    def received(self, item: n.NodeView, now_ms: int) -> None:
        """A view came; an older one than the known is ignored."""
        known = self._views.get(item.node_id)
        if known is not None and known.own is not None:
            return
        if not item.alive:
            self.lost(item.node_id)
            return
        if known is None or item.snapshot.version >= known.version:
            self._take(item, item.snapshot, now_ms)

    def corrected(self, reject: a.LeaseReject, now_ms: int) -> None:
        """A node that rejected a request said how it was then: its view may be older."""
        known = self._views.get(reject.node_id)
        if known is not None and known.own is None and reject.snapshot.version > known.version:
            self._take(known, reject.snapshot, now_ms)

    def _take(self, node: n.NodeView | NodeView, snapshot: n.ResourceSnapshot, now_ms: int) -> None:
        node_id = node.node_id
        known = self._views.get(node_id)
        deductions = {} if known is None else self._uncovered(known, snapshot, now_ms)
        for lease_id in known.deductions if known is not None else ():
            if lease_id not in deductions:
                self._lease_node.pop(lease_id, None)
        counted = dict(snapshot.total.amounts)
        names = self._names_of(node, known)
        view = NodeView(
            node_id=node_id,
            address=node.address,
            labels=dict(snapshot.labels),
            total={**counted, **names},
            available={**snapshot.available.amounts, **names},
            counted=counted,
            is_head=node.is_head,
            names=names,
            device_free={name: list(each.free) for name, each in snapshot.devices.items()},
            version=snapshot.version,
            draining=snapshot.draining,
            deductions=deductions,
        )
        if snapshot.HasField("identity_used"):
            resources.subtract(view.available, snapshot.identity_used.amounts)
        for deduction in deductions.values():
            resources.subtract(view.available, deduction.amounts)
        self._views[node_id] = view
        self._sorted = None
        self.touched[node_id] = None
        self.log.add(node_id)

    @staticmethod
    def _names_of(node: n.NodeView | NodeView, known: NodeView | None) -> Vector:
        if known is not None and known.address == node.address and known.is_head == node.is_head:
            return known.names
        return identity_of(node.address, is_head=node.is_head)

    def _uncovered(
        self, known: NodeView, snapshot: n.ResourceSnapshot, now_ms: int
    ) -> dict[bytes, Deduction]:
        """Deductions for requests that had not come when the snapshot was made."""
        own_id = b"" if self._own is None else self._own.node_id
        seen = next((x for x in snapshot.sendings_seen if x.scheduler_id == own_id), None)
        return {
            lease_id: deduction
            for lease_id, deduction in known.deductions.items()
            if not is_seen(seen, deduction.number)
            and now_ms - deduction.made_ms < limits.DEDUCTION_MS
        }

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
        self._sent.pop(node_id, None)
        self.log.add(node_id)
        for lease_id in known.deductions:
            self._lease_node.pop(lease_id, None)
        self._sorted = None
        self.node_lost = True

    def deduct(self, view: NodeView, lease_id: bytes, amounts: Vector, now_ms: int) -> None:
        """A lease was sent to this node. Devices are not deducted: the node decides on them."""
        if view.own is not None:
            return
        assert lease_id not in self._lease_node, f"lease {lease_id.hex()} is deducted already"
        number = self._sent[view.node_id] = self._sent.get(view.node_id, 0) + 1
        view.deductions[lease_id] = Deduction(amounts, now_ms, number)
        resources.subtract(view.available, amounts)
        self._lease_node[lease_id] = view.node_id
        self.log.add(view.node_id)

    def sent_to(self, lease_id: bytes) -> NodeView | None:
        """Where a lease was sent not long ago."""
        node_id = self._lease_node.get(lease_id)
        return None if node_id is None else self._views.get(node_id)

    def sending(self, lease_id: bytes) -> a.Sending | None:
        """What the request carries to the node it was sent to."""
        view = self.sent_to(lease_id)
        if view is None or self._own is None:
            return None
        number = view.deductions[lease_id].number
        return a.Sending(scheduler_id=self._own.node_id, number=number)

    def undo(self, lease_id: bytes) -> None:
        """The lease is not on that node (any more)."""
        node_id = self._lease_node.pop(lease_id, None)
        view = self._views.get(node_id) if node_id is not None else None
        if view is None:
            return
        resources.add(view.available, view.deductions.pop(lease_id).amounts)
        self.touched[view.node_id] = None
        self.log.add(view.node_id)

    def deducted(self) -> list[bytes]:
        """Leases with a deduction, oldest first."""
        return list(self._lease_node)

    def next_expiry_ms(self) -> int | None:
        """When the oldest deduction's time is up."""
        for lease_id, node_id in self._lease_node.items():
            return self._views[node_id].deductions[lease_id].made_ms + limits.DEDUCTION_MS
        return None

    def expired(self, now_ms: int) -> list[bytes]:
        """Leases whose deduction is too old, oldest first."""
        old: list[bytes] = []
        for lease_id, node_id in self._lease_node.items():
            made_ms = self._views[node_id].deductions[lease_id].made_ms
            if now_ms - made_ms < limits.DEDUCTION_MS:
                break
            old.append(lease_id)
        return old
