"""The usable nodes that pass one selector, by class, by domain, by shape.

Iteration order is insertion order everywhere, so that the same history gives the same choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from cluster_common.labels import Term, matches
from gcs_service.core.placement.amounts import Amounts
from gcs_service.core.placement.domain_fits import DomainFits, DomainValue
from gcs_service.core.placement.limits import POOL_SHAPES_MAX
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.room_class import RoomClass
from gcs_service.core.placement.shape_fits import ShapeFits

Members = dict[RoomClass, dict[NodeRoom, None]]
DomainKey = tuple[str, ...]


class Space(Protocol):
    """Nodes a policy may choose from: the whole pool, or one domain of it."""

    @property
    def members(self) -> Members:
        """Nodes by class."""
        ...

    def tightest_first(self, amounts: Amounts) -> Iterator[tuple[int, RoomClass]]:
        """(copies that fit, class), fewest copies first."""
        ...

    def roomiest_first(self, amounts: Amounts) -> Iterator[tuple[int, RoomClass]]:
        """(copies that fit, class), most copies first."""
        ...


class ListedSpace:
    """A few nodes by class; ranks by looking at each class."""

    __slots__ = ("members",)

    def __init__(self) -> None:
        self.members: Members = {}

    def add(self, node: NodeRoom, room: RoomClass) -> None:
        """Puts the node in."""
        nodes = self.members.get(room)
        if nodes is None:
            nodes = self.members[room] = {}
        nodes[node] = None

    def remove(self, node: NodeRoom, room: RoomClass) -> None:
        """Takes the node out."""
        nodes = self.members[room]
        del nodes[node]
        if not nodes:
            del self.members[room]

    def tightest_first(self, amounts: Amounts) -> Iterator[tuple[int, RoomClass]]:
        """As `Space`."""
        yield from self._ranked(amounts, 1)

    def roomiest_first(self, amounts: Amounts) -> Iterator[tuple[int, RoomClass]]:
        """As `Space`."""
        yield from self._ranked(amounts, -1)

    def _ranked(self, amounts: Amounts, sign: int) -> list[tuple[int, RoomClass]]:
        if len(self.members) == 1:
            room = next(iter(self.members))
            capacity = room.capacity(amounts)
            return [(capacity, room)] if capacity else []
        ranked = [
            (room.wastes_devices_on(amounts), sign * capacity, room.number, room)
            for room in self.members
            if (capacity := room.capacity(amounts))
        ]
        ranked.sort()
        return [(sign * signed, room) for _waste, signed, _number, room in ranked]


class DomainTable:
    """Nodes of a pool by the values of one label, or of several nested ones."""

    __slots__ = ("_value_of", "fits", "key", "spaces")

    def __init__(self, key: DomainKey) -> None:
        self.key = key
        self.spaces: dict[DomainValue, ListedSpace] = {}
        self._value_of: dict[NodeRoom, DomainValue] = {}
        self.fits: dict[tuple[int, bool], DomainFits] = {}

    def add(self, node: NodeRoom, room: RoomClass) -> None:
        """The node came. Without one of the labels it is in no domain."""
        values: list[str] = []
        for label in self.key:
            found = node.labels.get(label)
            if found is None:
                return
            values.append(found)
        value = tuple(values)
        self._value_of[node] = value
        space = self.spaces.get(value)
        if space is None:
            space = self.spaces[value] = ListedSpace()
        space.add(node, room)
        for fits in self.fits.values():
            fits.change(value, fits.worth(room))

    def remove(self, node: NodeRoom, room: RoomClass) -> None:
        """The node went."""
        value = self._value_of.pop(node, None)
        if value is None:
            return
        space = self.spaces[value]
        space.remove(node, room)
        if not space.members:
            del self.spaces[value]
        for fits in self.fits.values():
            fits.change(value, -fits.worth(room))

    def move(self, node: NodeRoom, before: RoomClass, after: RoomClass) -> None:
        """The node's class changed."""
        value = self._value_of.get(node)
        if value is None:
            return
        space = self.spaces[value]
        space.remove(node, before)
        space.add(node, after)
        for fits in self.fits.values():
            difference = fits.worth(after) - fits.worth(before)
            if difference:
                fits.change(value, difference)

    def fits_of(self, amounts: Amounts, *, by_slots: bool) -> DomainFits:
        """The scores of one shape, built on first use, then kept up to date."""
        key = (amounts.number, by_slots)
        found = self.fits.pop(key, None)
        if found is None:
            found = DomainFits(amounts, by_slots=by_slots)
            for value, space in self.spaces.items():
                score = sum(found.worth(room) * len(nodes) for room, nodes in space.members.items())
                found.change(value, score)
            if len(self.fits) >= POOL_SHAPES_MAX:
                del self.fits[next(iter(self.fits))]
        self.fits[key] = found
        return found


class Pool:
    """One selector's nodes and every index kept for them."""

    __slots__ = ("_shapes", "members", "selector", "size", "tables")

    def __init__(self, selector: tuple[Term, ...]) -> None:
        self.selector = selector
        self.members: Members = {}
        self.size = 0
        self.tables: dict[DomainKey, DomainTable] = {}
        self._shapes: dict[int, ShapeFits] = {}

    def accepts(self, node: NodeRoom) -> bool:
        """Whether the node's labels pass the selector."""
        return not self.selector or matches(self.selector, node.labels)

    def add(self, node: NodeRoom, room: RoomClass) -> None:
        """The node came."""
        self._enter(node, room)
        self.size += 1
        for table in self.tables.values():
            table.add(node, room)

    def remove(self, node: NodeRoom, room: RoomClass) -> None:
        """The node went."""
        self._leave(node, room)
        self.size -= 1
        for table in self.tables.values():
            table.remove(node, room)

    def move(self, node: NodeRoom, before: RoomClass, after: RoomClass) -> None:
        """The node's class changed."""
        self._leave(node, before)
        self._enter(node, after)
        for table in self.tables.values():
            table.move(node, before, after)

    def _enter(self, node: NodeRoom, room: RoomClass) -> None:
        nodes = self.members.get(room)
        if nodes is None:
            nodes = self.members[room] = {}
            for shape in self._shapes.values():
                shape.born(room)
        nodes[node] = None

    def _leave(self, node: NodeRoom, room: RoomClass) -> None:
        nodes = self.members[room]
        del nodes[node]
        if not nodes:
            del self.members[room]
            for shape in self._shapes.values():
                shape.died(room)

    def shape(self, amounts: Amounts) -> ShapeFits:
        """The classes that hold this shape, built on first use, then kept up to date."""
        found = self._shapes.pop(amounts.number, None)
        if found is None:
            found = ShapeFits(amounts)
            for room in self.members:
                found.born(room)
            if len(self._shapes) >= POOL_SHAPES_MAX:
                del self._shapes[next(iter(self._shapes))]
        self._shapes[amounts.number] = found
        return found

    def table(self, key: DomainKey) -> DomainTable:
        """Nodes by domain, built on first use, then kept up to date."""
        found = self.tables.get(key)
        if found is None:
            found = self.tables[key] = DomainTable(key)
            for room, nodes in self.members.items():
                for node in nodes:
                    found.add(node, room)
        return found

    def tightest_first(self, amounts: Amounts) -> Iterator[tuple[int, RoomClass]]:
        """As `Space`."""
        return self.shape(amounts).tightest_first()

    def roomiest_first(self, amounts: Amounts) -> Iterator[tuple[int, RoomClass]]:
        """As `Space`."""
        return self.shape(amounts).roomiest_first()
