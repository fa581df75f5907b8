"""Nodes as bins that requests are packed into, and new ones within the limits of their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autoscaler.core.config import NodeType
from autoscaler.core.wants import Selector, Shape
from cluster_common import labels as label_rules
from cluster_common import resources
from cluster_common.resources import DEVICE_RESOURCES, Vector


class Bin:
    """Free room of one node. `new`: it has to be bought; `used`: something was packed into it."""

    __slots__ = ("apart", "free", "key", "labels", "new", "node_type", "used")

    def __init__(
        self,
        key: object,
        node_type: str,
        free: Vector,
        labels: Mapping[str, str],
        *,
        apart: frozenset[str] = frozenset(),
        new: bool = False,
    ) -> None:
        self.key = key
        self.node_type = node_type
        self.free = dict(free)
        self.labels = labels
        self.apart = apart
        self.new = new
        self.used = 0

    def capacity(self, amounts: Mapping[str, int]) -> int:
        """How many copies of these amounts fit."""
        return capacity(self.free, amounts)

    def take(self, amounts: Mapping[str, int], count: int = 1) -> None:
        """Packs copies into it."""
        for name, amount in amounts.items():
            left = self.free.get(name, 0) - amount * count
            assert left >= 0, f"bin {self.key!r} has {resources.text(self.free)}"
            self.free[name] = left
        self.used += count

    def give_back(self, amounts: Mapping[str, int]) -> None:
        """Undoes one `take`."""
        for name, amount in amounts.items():
            self.free[name] += amount
        self.used -= 1


def capacity(room: Mapping[str, int], amounts: Mapping[str, int]) -> int:
    """How many copies of `amounts` fit into `room`."""
    counts = [room.get(name, 0) // amount for name, amount in amounts.items() if amount]
    return max(0, min(counts, default=1 << 20))


class Stock:
    """All bins, and how many more of each type may be bought."""

    def __init__(
        self, types: Mapping[str, NodeType], bins: Iterable[Bin], counts: Mapping[str, int]
    ) -> None:
        self._types = types
        self.bins = list(bins)
        self._counts = dict(counts)

    def launches(self) -> dict[str, int]:
        """New bins by type, in the order of the types."""
        counts = dict.fromkeys(self._types, 0)
        for one in self.bins:
            counts[one.node_type] = counts.get(one.node_type, 0) + one.new
        return {name: count for name, count in counts.items() if count}

    def count(self, node_type: str) -> int:
        """Nodes of a type, new ones included."""
        return self._counts.get(node_type, 0)

    def buy(self, node_type: NodeType) -> Bin:
        """One more node of a type that is below its maximum."""
        assert self.count(node_type.name) < node_type.max_nodes, (
            f"{node_type.name} is at its maximum"
        )
        self._counts[node_type.name] = self.count(node_type.name) + 1
        made = Bin(
            (node_type.name, self._counts[node_type.name]),
            node_type.name,
            node_type.resources,
            node_type.labels,
            new=True,
        )
        self.bins.append(made)
        return made

    def unbuy(self, one: Bin) -> None:
        """Undoes the newest `buy`."""
        last = self.bins.pop()
        assert last is one, "what was bought last goes first"
        self._counts[one.node_type] -= 1

    def best_type(
        self, shape: Shape, wanted: int, domain: Mapping[str, str] | None = None
    ) -> NodeType | None:
        """The type to buy for `wanted` copies of a shape: no device for nothing, then least waste.

        None: no type can hold it, or all that could are at their maximum.
        """
        best: NodeType | None = None
        best_score: tuple[bool, float, float, int] | None = None
        for node_type in self._types.values():
            if self.count(node_type.name) >= node_type.max_nodes:
                continue
            if not passes(node_type.labels, shape.selector, domain):
                continue
            copies = min(wanted, capacity(node_type.resources, shape.amounts))
            if not copies:
                continue
            score = _score(node_type.resources, shape.amounts, copies)
            if best_score is None or score > best_score:
                best, best_score = node_type, score
        return best


def passes(labels: Mapping[str, str], selector: Selector, domain: Mapping[str, str] | None) -> bool:
    """Whether a node with these labels may be used."""
    if domain and any(labels.get(label) != value for label, value in domain.items()):
        return False
    return label_rules.matches(selector, labels)


def _score(
    total: Mapping[str, int], amounts: Mapping[str, int], copies: int
) -> tuple[bool, float, float, int]:
    idle_devices = any(total.get(name, 0) and not amounts.get(name, 0) for name in DEVICE_RESOURCES)
    shares = [amounts.get(name, 0) * copies / amount for name, amount in total.items() if amount]
    mean = sum(shares) / len(shares) if shares else 0.0
    return not idle_devices, min(shares, default=0.0), mean, copies
