"""Names of nodes (`node:10.0.0.7`) that requests ask for, and the nodes that have them.

Every node has 1.0 of its own name. If all of them counted in the vectors of room, each node would
be a class of its own, and ten thousand equal nodes would not be one any more. So a node's name
counts only while somebody asks for it: a group that lives, or one of the last questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gcs_service.core.placement.limits import ASKED_NAMES_KEPT_MAX
from gcs_service.core.placement.node_room import NodeRoom


class AskedNames:
    """How often each name is asked for. Tells which nodes begin or cease to count theirs.

    Which nodes have a name is kept from the first question on: most clusters never ask.
    """

    def __init__(self, nodes: Mapping[bytes, NodeRoom]) -> None:
        self._all = nodes
        self._is_indexed = False
        self._uses: dict[str, int] = {}
        self._nodes: dict[str, dict[NodeRoom, None]] = {}
        self._kept: dict[str, None] = {}

    @property
    def kept_count(self) -> int:
        """Names of the last questions."""
        return len(self._kept)

    def put(self, node: NodeRoom) -> None:
        """The node joined, or came back, maybe with another name than it was dropped with."""
        if self._is_indexed:
            for name in node.identity:
                self._nodes.setdefault(name, {})[node] = None
            self._show(node)

    def drop(self, node: NodeRoom) -> None:
        """The node is gone, or about to state its names anew."""
        if not self._is_indexed:
            return
        for name in node.identity:
            nodes = self._nodes.get(name, {})
            nodes.pop(node, None)
            if not nodes:
                self._nodes.pop(name, None)

    def ask(self, names: Iterable[str]) -> list[NodeRoom]:
        """Somebody asks for these; the nodes whose room has another vector now."""
        fresh = [name for name in names if self._count(name, 1) == 1]
        if fresh and not self._is_indexed:
            self._is_indexed = True
            for node in self._all.values():
                if node.joined:
                    self.put(node)
        return self._changed(fresh)

    def cease(self, names: Iterable[str]) -> list[NodeRoom]:
        """Who asked does so no more; the nodes whose room has another vector now."""
        gone = [name for name in names if not self._count(name, -1)]
        return self._changed(gone)

    def keep(self, names: Iterable[str]) -> list[NodeRoom]:
        """As `ask` for who never ceases: until many other names were asked for that way."""
        fresh: list[str] = []
        for name in names:
            if name in self._kept:
                del self._kept[name]
            else:
                fresh.append(name)
            self._kept[name] = None
        changed = self.ask(fresh)
        while len(self._kept) > ASKED_NAMES_KEPT_MAX:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            changed += self.cease((oldest,))
        return changed

    def _count(self, name: str, step: int) -> int:
        uses = self._uses.get(name, 0) + step
        assert uses >= 0, f"{name} was asked for less often than that ended"
        if uses:
            self._uses[name] = uses
        else:
            del self._uses[name]
        return uses

    def _changed(self, names: list[str]) -> list[NodeRoom]:
        nodes = {node: None for name in names for node in self._nodes.get(name, ())}
        for node in nodes:
            self._show(node)
        return list(nodes)

    def _show(self, node: NodeRoom) -> None:
        node.show(tuple(name for name in node.identity if name in self._uses))
