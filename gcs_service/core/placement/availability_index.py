"""All usable nodes, indexed for choosing. One instance ranks free room, another one totals.

A pool per selector in use; the pool of the empty selector always exists. A node's change touches
the pools it is in, never other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster_common.labels import Term
from gcs_service.core.placement.limits import POOLS_MAX
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.pool import Pool
from gcs_service.core.placement.room_class import RoomClass

Selector = tuple[Term, ...]


class AvailabilityIndex:
    """Nodes with the class each stands in, grouped as policies need them."""

    __slots__ = ("_by_id", "_by_label", "_class_of", "_pools", "_pools_of", "everything", "version")

    def __init__(self) -> None:
        self.everything = Pool(())
        self.version = 0
        self._pools: dict[Selector, Pool] = {}
        self._class_of: dict[NodeRoom, RoomClass] = {}
        self._pools_of: dict[NodeRoom, list[Pool]] = {}
        self._by_label: dict[tuple[str, str], dict[NodeRoom, None]] = {}
        self._by_id: dict[bytes, NodeRoom] = {}

    @property
    def pools_count(self) -> int:
        """Pools kept, one a selector."""
        return len(self._pools)

    def __len__(self) -> int:
        return len(self._class_of)

    def __contains__(self, node: NodeRoom) -> bool:
        return node in self._class_of

    def class_of(self, node: NodeRoom) -> RoomClass | None:
        """Where the node stands; None when it is not usable."""
        return self._class_of.get(node)

    def by_id(self, node_id: bytes) -> NodeRoom | None:
        """The usable node of this id, if any."""
        return self._by_id.get(node_id)

    def nodes(self) -> Iterable[NodeRoom]:
        """All usable nodes in the order they came."""
        return self._class_of

    def put(self, node: NodeRoom, room: RoomClass) -> RoomClass | None:
        """Adds the node or moves it to another class; the class before (None: it was not here)."""
        before = self._class_of.get(node)
        if before is room:
            return before
        self.version += 1
        self._class_of[node] = room
        if before is None:
            self._add(node, room)
        else:
            for pool in self._pools_of[node]:
                pool.move(node, before, room)
        return before

    def _add(self, node: NodeRoom, room: RoomClass) -> None:
        pools = [self.everything, *(pool for pool in self._pools.values() if pool.accepts(node))]
        self._pools_of[node] = pools
        self._by_id[node.node_id] = node
        for pool in pools:
            pool.add(node, room)
        for label in node.labels.items():
            nodes = self._by_label.get(label)
            if nodes is None:
                nodes = self._by_label[label] = {}
            nodes[node] = None

    def drop(self, node: NodeRoom) -> None:
        """Takes the node out (also before its labels change); no effect when it is not here."""
        room = self._class_of.pop(node, None)
        if room is None:
            return
        self.version += 1
        del self._by_id[node.node_id]
        for pool in self._pools_of.pop(node):
            pool.remove(node, room)
        for label in node.labels.items():
            nodes = self._by_label[label]
            del nodes[node]
            if not nodes:
                del self._by_label[label]

    def pool(self, selector: Selector) -> Pool:
        """The pool of a selector.

        Built on first use from the nodes of its rarest required label.
        """
        if not selector:
            return self.everything
        found = self._pools.pop(selector, None)
        if found is None:
            if len(self._pools) >= POOLS_MAX:
                self._forget_pool()
            found = Pool(selector)
            for node in self._candidates(selector):
                if found.accepts(node):
                    found.add(node, self._class_of[node])
                    self._pools_of[node].append(found)
        self._pools[selector] = found
        return found

    def _forget_pool(self) -> None:
        oldest = next(iter(self._pools))
        pool = self._pools.pop(oldest)
        for nodes in pool.members.values():
            for node in nodes:
                self._pools_of[node].remove(pool)

    def _candidates(self, selector: Selector) -> list[NodeRoom]:
        best: list[NodeRoom] | None = None
        for term in selector:
            if term.negated or term.is_existence:
                continue
            found = [
                node
                for value in dict.fromkeys(term.values)
                for node in self._by_label.get((term.key, value), {})
            ]
            if best is None or len(found) < len(best):
                best = found
        return list(self._class_of) if best is None else best
