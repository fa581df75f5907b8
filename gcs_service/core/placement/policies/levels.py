"""Domain levels that are not packed into one domain (PACK.

SPREAD, STRICT_SPREAD, or packed below one of these).

One bundle at a time: leaf domains are ranked level by level by what the group already has there,
then by room; the first with a node for the bundle gets it. Greedy, without backtracking, and it
looks at every node of the space: the price of a rule that few groups use. Levels packed into one
domain come before (`choose`) and are exact.
"""

from __future__ import annotations

from collections.abc import Mapping

from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Choice, Run, Task
from gcs_service.core.placement.policies import pack
from gcs_service.core.placement.pool import ListedSpace
from gcs_service.core.placement.request import (
    PACK,
    SPREAD,
    STRICT_PACK,
    STRICT_SPREAD,
    Level,
)

Path = tuple[str, ...]


class _Tree:
    """Leaf domains of every run, and how many bundles of the group each domain has."""

    def __init__(self, task: Task, levels: tuple[Level, ...]) -> None:
        self.levels = levels
        self.counts: dict[Path, int] = {}
        self.children: dict[Path, Path] = {}
        self.leaves: list[dict[Path, ListedSpace]] = [self._split(run) for run in task.runs]
        for node, count in task.stayed.items():
            path = self._path(node)
            if path is not None:
                self.count(path, count)

    def _path(self, node: NodeRoom) -> Path | None:
        values = tuple(node.labels.get(level.label, "") for level in self.levels)
        return values if all(values) else None

    def _split(self, run: Run) -> dict[Path, ListedSpace]:
        leaves: dict[Path, ListedSpace] = {}
        for room, nodes in run.space.members.items():
            for node in nodes:
                path = self._path(node)
                if path is None:
                    continue
                leaf = leaves.get(path)
                if leaf is None:
                    leaf = leaves[path] = ListedSpace()
                leaf.add(node, room)
        return leaves

    def count(self, path: Path, bundles: int) -> None:
        """The group has `bundles` more in this leaf."""
        for depth in range(1, len(path) + 1):
            prefix = path[:depth]
            self.counts[prefix] = self.counts.get(prefix, 0) + bundles
            self.children[path[: depth - 1]] = prefix

    def ranked(self, number: int, slots: Mapping[Path, int]) -> list[Path]:
        """Leaves that the rules allow for the next bundle of a run, best first."""
        ranked: list[tuple[tuple[int, ...], Path]] = []
        for path in self.leaves[number]:
            key = self._rank(path)
            if key is not None:
                ranked.append(((*key, -slots[path]), path))
        ranked.sort()
        return [path for _key, path in ranked]

    def _rank(self, path: Path) -> tuple[int, ...] | None:
        key: list[int] = []
        for depth, level in enumerate(self.levels, start=1):
            count = self.counts.get(path[:depth], 0)
            if level.strategy == STRICT_SPREAD and count:
                return None
            if level.strategy == STRICT_PACK:
                chosen = self.children.get(path[: depth - 1])
                if chosen is not None and chosen != path[:depth]:
                    return None
            key.append(-count if level.strategy in (PACK, STRICT_PACK) else count)
        return tuple(key)


def place(task: Task, levels: tuple[Level, ...], strategy: int) -> Choice | None:
    """A node for each bundle under the node-level `strategy`, or None."""
    choice = Choice(task)
    tree = _Tree(task, levels)
    for number, run in enumerate(task.runs):
        leaves = tree.leaves[number]
        slots = {
            path: sum(
                room.capacity(run.amounts) * len(nodes) for room, nodes in leaf.members.items()
            )
            for path, leaf in leaves.items()
        }
        for position in run.positions:
            found = _next(task, choice, tree, (number, run), slots, strategy)
            if found is None:
                return None
            path, node = found
            choice.put(position, run.amounts, node)
            tree.count(path, 1)
            slots[path] -= 1
    return choice


def _next(
    task: Task,
    choice: Choice,
    tree: _Tree,
    numbered: tuple[int, Run],
    slots: Mapping[Path, int],
    strategy: int,
) -> tuple[Path, NodeRoom] | None:
    number, run = numbered
    for path in tree.ranked(number, slots):
        inside = Run(run.shape, run.positions, tree.leaves[number][path])
        node = _node(task, choice, inside, strategy)
        if node is not None:
            return path, node
    return None


def _node(task: Task, choice: Choice, run: Run, strategy: int) -> NodeRoom | None:
    if strategy == PACK:
        used = pack.used_with_room(task, choice, run)
        if used is not None:
            return used
    for _capacity, room in run.space.roomiest_first(run.amounts):
        for node in choice.fresh(run.space, room):
            return node
    return pack.used_with_room(task, choice, run) if strategy == SPREAD else None
