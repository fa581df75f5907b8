"""One decision: bin packing of everything that is wanted over what is there and what can be bought.

Order: the minimum of each type, gangs (oldest first, each whole or not at all), single requests
(hardest first), the requested floor. A node is given back when it has been idle for long enough and
nothing of this was packed into it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from autoscaler.core.bins import Bin, Stock, passes
from autoscaler.core.config import AutoscalerConfig
from autoscaler.core.gangs import hardness, place_gang
from autoscaler.core.wants import Decision, Gang, Node, Shape, Wants


def decide(config: AutoscalerConfig, wants: Wants) -> Decision:
    """What to buy and what to give back now. Never above a maximum, never below a minimum."""
    counts = Counter(node.node_type for node in wants.nodes if not node.draining)
    # A draining node still exists: it counts towards the maximum until it is gone.
    existing = Counter(node.node_type for node in wants.nodes)
    usable = [node for node in wants.nodes if not node.draining]
    bins = [_free_bin(node) for node in usable]
    stock = Stock(config.node_types, bins, existing)
    for node_type in config.node_types.values():
        missing = node_type.min_nodes - counts[node_type.name]
        for _ in range(min(missing, node_type.max_nodes - existing[node_type.name])):
            stock.buy(node_type)
    types_labels = [node_type.labels for node_type in config.node_types.values()]
    gangs = [gang for gang in wants.gangs if not place_gang(stock, gang, types_labels)]
    shapes = [left for shape in sorted(wants.shapes, key=hardness) if (left := _pack(stock, shape))]
    floor = Floor(config, usable, stock)
    floor.raise_to(wants.floor)
    return Decision(
        launch=stock.launches(),
        release=_release(config, bins, usable, counts, floor, wants.floor),
        infeasible_shapes=tuple(shapes),
        infeasible_gangs=tuple[Gang, ...](gangs),
    )


def _free_bin(node: Node) -> Bin:
    return Bin(node, node.node_type, node.available, node.labels, apart=node.apart)


def _pack(stock: Stock, shape: Shape) -> Shape | None:
    """Packs all copies of a shape; what is left over, or None."""
    left = shape.count
    for one in stock.bins:
        if not left:
            return None
        if passes(one.labels, shape.selector, None):
            count = min(left, one.capacity(shape.amounts))
            if count:
                one.take(shape.amounts, count)
                left -= count
    while left:
        node_type = stock.best_type(shape, left)
        if node_type is None:
            return Shape(shape.amounts, shape.selector, left)
        made = stock.buy(node_type)
        count = min(left, made.capacity(shape.amounts))
        made.take(shape.amounts, count)
        left -= count
    return None


class Floor:
    """The requested size: shapes packed into the totals of all nodes, whatever runs on them."""

    def __init__(self, config: AutoscalerConfig, nodes: Sequence[Node], stock: Stock) -> None:
        self._config = config
        self._nodes = nodes
        self._stock = stock

    def raise_to(self, shapes: Iterable[Shape]) -> None:
        """Buys what the totals of all nodes, new ones included, cannot hold."""
        rows = sorted(shapes, key=hardness)
        if not rows:
            return
        totals = self._totals(None)
        for shape in rows:
            left = _fill(totals, shape)
            while left:
                node_type = self._stock.best_type(shape, left)
                if node_type is None:
                    break
                made = self._stock.buy(node_type)
                whole = Bin(made.key, made.node_type, node_type.resources, node_type.labels)
                totals.append(whole)
                left = _fill([whole], Shape(shape.amounts, shape.selector, left))

    def left_without(self, gone: set[bytes], shapes: Iterable[Shape]) -> int:
        """Requests of the floor that have no room when these nodes are gone."""
        totals = self._totals(gone)
        return sum(_fill(totals, shape) for shape in sorted(shapes, key=hardness))

    def _totals(self, gone: set[bytes] | None) -> list[Bin]:
        totals = [
            Bin(node, node.node_type, node.total, node.labels)
            for node in self._nodes
            if gone is None or not node.node_id or node.node_id not in gone
        ]
        for one in self._stock.bins:
            if one.new:
                node_type = self._config.node_types[one.node_type]
                totals.append(Bin(one.key, one.node_type, node_type.resources, node_type.labels))
        return totals


def _fill(bins: list[Bin], shape: Shape) -> int:
    """Packs what fits; how many copies are left over."""
    left = shape.count
    for one in bins:
        if not left:
            break
        if passes(one.labels, shape.selector, None):
            count = min(left, one.capacity(shape.amounts))
            if count:
                one.take(shape.amounts, count)
                left -= count
    return left


def _release(
    config: AutoscalerConfig,
    bins: Sequence[Bin],
    nodes: Sequence[Node],
    counts: Counter[str],
    floor: Floor,
    wanted: Sequence[Shape],
) -> tuple[Node, ...]:
    """Idle nodes that nothing was packed into: the longest idle first."""
    left = Counter(counts)
    unused = [node for one, node in zip(bins, nodes, strict=True) if not one.used]
    candidates = [node for node in unused if node.node_id and node.instance_id]
    candidates.sort(key=lambda node: (-(node.idle_ms or 0), node.node_id))
    gone: set[bytes] = set()
    released: list[Node] = []
    lacking = floor.left_without(gone, wanted) if wanted else 0
    for node in candidates:
        if node.idle_ms is None or not _may_go(config, node, left[node.node_type]):
            continue
        if wanted and floor.left_without(gone | {node.node_id}, wanted) > lacking:
            continue
        gone.add(node.node_id)
        left[node.node_type] -= 1
        released.append(node)
    return tuple(released)


def _may_go(config: AutoscalerConfig, node: Node, count: int) -> bool:
    node_type = config.node_types.get(node.node_type)
    if node_type is None:
        return True  # taken out of the configuration: it goes as soon as it is idle
    if count > node_type.max_nodes:
        return True
    return count > node_type.min_nodes and (node.idle_ms or 0) >= config.idle_timeout_ms
