"""What a choice works on and what it returns: wanted bundles in, a plan or a shortfall out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gcs_service.core.placement.amounts import Amounts, AmountsTable
from gcs_service.core.placement.availability_index import AvailabilityIndex
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.pool import Space
from gcs_service.core.placement.request import Request, Selector, Shape
from gcs_service.core.placement.room_class import RoomClass

NO_ROOM = "insufficient_free"
DOMAIN_INCOMPLETE = "domain_incomplete"


class Wanted(NamedTuple):
    """The bundles of a group that have no node yet, and what already binds them.

    Hashable: one key for all groups that would get the same answer.
    """

    request: Request
    positions: tuple[int, ...]
    stayed: tuple[NodeRoom, ...] = ()
    """Nodes of bundles that keep their place, one entry a bundle."""
    domain: tuple[str, ...] = ()
    """Values of the packed labels that are already decided."""
    newer_than: int = -1
    """Only nodes that joined after this order number (`on_loss="wait"`)."""


class Plan(NamedTuple):
    """A node for each wanted position, in the order of `Wanted.positions`."""

    nodes: list[NodeRoom]
    domain: tuple[str, ...]


class Shortfall(NamedTuple):
    """Why there is no plan; the best domain and what it has, if domains were the point."""

    reason: str
    label: str = ""
    value: tuple[str, ...] = ()
    fitting: int = 0
    wanted: int = 0

    def sentence(self) -> str:
        """One sentence for people."""
        if self.reason == DOMAIN_INCOMPLETE:
            if not self.value:
                return f"no {self.label} has a node with room for a bundle"
            return (
                f"best {self.label} is {'/'.join(self.value)}: room for {self.fitting} of "
                f"{self.wanted} bundles"
            )
        if self.wanted > 1:
            return f"room for {self.fitting} of {self.wanted} bundles"
        return "no node has enough free"


class Run(NamedTuple):
    """Equal bundles, and the nodes they may go to."""

    shape: Shape
    positions: list[int]
    space: Space

    @property
    def amounts(self) -> Amounts:
        """The vector of each bundle."""
        return self.shape.amounts


class Task(NamedTuple):
    """One node-level choice: runs (hardest first) and the nodes the group already uses."""

    runs: list[Run]
    stayed: Mapping[NodeRoom, int]
    newer_than: int
    soft_target: bytes
    table: AmountsTable
    rooms: AvailabilityIndex

    @property
    def bundle_count(self) -> int:
        """Bundles to place."""
        return sum(len(run.positions) for run in self.runs)


class Choice:
    """A plan under construction.

    Where bundles went and what that leaves, without touching the index.
    """

    __slots__ = ("_index", "_left", "newer_than", "nodes", "stayed", "used")

    def __init__(self, task: Task) -> None:
        self._index = task.rooms
        self._left: dict[NodeRoom, RoomClass] = {}
        self.newer_than = task.newer_than
        self.stayed = task.stayed
        self.nodes: dict[int, NodeRoom] = {}
        self.used: dict[NodeRoom, int] = dict(task.stayed)

    def room(self, node: NodeRoom) -> RoomClass | None:
        """What this choice leaves on the node; None when the node is not usable."""
        left = self._left.get(node)
        return left if left is not None else self._index.class_of(node)

    def put(self, position: int, amounts: Amounts, node: NodeRoom) -> None:
        """Gives the bundle to the node."""
        room = self.room(node)
        assert room is not None, f"bundle {position} put on unusable node {node.node_id.hex()}"
        self._left[node] = room.less(amounts)
        self.nodes[position] = node
        self.used[node] = self.used.get(node, 0) + 1

    def fresh(self, space: Space, room: RoomClass) -> Iterator[NodeRoom]:
        """Nodes of a class that this group does not use."""
        newer_than = self.newer_than
        for node in space.members[room]:
            if node not in self.used and node.order > newer_than:
                yield node


def grouped_positions(request: Request, positions: tuple[int, ...]) -> dict[Shape, list[int]]:
    """Equal bundles together, in the order in which their shapes come first."""
    grouped: dict[Shape, list[int]] = {}
    shapes = request.shapes
    for position in positions:
        shape = shapes[position]
        found = grouped.get(shape)
        if found is None:
            grouped[shape] = [position]
        else:
            found.append(position)
    return grouped


def runs_of(grouped: Mapping[Shape, list[int]], space_of: Callable[[Selector], Space]) -> list[Run]:
    """The groups of equal bundles, hardest first, each with its selector's nodes."""
    runs = [Run(shape, positions, space_of(shape.selector)) for shape, positions in grouped.items()]
    if len(runs) > 1:
        runs.sort(key=lambda run: (run.amounts.hardness, run.positions[0]))
    return runs
