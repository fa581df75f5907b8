"""One stream between two processes: ordered and reliable while it lives, then gone at some byte.

A break keeps a prefix of what was on the way, in each direction for itself, and each end learns of
it at its own time. So what an old stream still delivers can come after what a newer one said.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Protocol

from cluster_simulator import costs, wire

if TYPE_CHECKING:
    from cluster_simulator.network import Network


class End(Protocol):
    """A process at one end of a link."""

    alive: bool
    name: str

    def link_frame(self, link: Link, items: list[Any]) -> None:
        """Items arrived, in order."""
        ...

    def link_closed(self, link: Link, *, refused: bool) -> None:
        """The other end is gone; `refused`: nobody listened there."""
        ...


class Direction:
    """What travels from one end to the other."""

    __slots__ = (
        "arrived_us",
        "delivered",
        "held",
        "keep",
        "next_write_us",
        "queue",
        "scheduled",
        "sent",
        "unkeyed",
    )

    def __init__(self) -> None:
        self.queue: dict[Hashable, Any] = {}
        self.unkeyed = 0
        self.scheduled = False
        self.next_write_us = 0
        self.arrived_us = 0
        self.sent = 0
        self.delivered = 0
        self.keep: int | None = None
        """Frames from this number on are lost."""
        self.held: list[tuple[int, list[Any]]] = []


class Link:
    """Side 0 dialled, side 1 accepted (with its first frame)."""

    __slots__ = ("address", "closing", "data", "directions", "ends", "kind", "network", "number")

    def __init__(self, network: Network, number: int, kind: str, client: End, address: str) -> None:
        self.network = network
        self.number = number
        self.kind = kind
        self.address = address
        self.ends: list[End | None] = [client, None]
        self.directions = (Direction(), Direction())
        self.closing: dict[int, None] = {}
        self.data: Any = None
        """What the accepting end keeps with it."""

    def side_of(self, end: End) -> int:
        """0 for who dialled, 1 for who accepted."""
        return self.ends.index(end)

    def is_open(self, side: int) -> bool:
        """Whether this end may still use it, as far as it knows."""
        return self.ends[side] is not None and side not in self.closing

    def send(self, side: int, item: Any, key: Hashable = None) -> None:
        """Queues an item; one with the key of an unsent one replaces it. Callables build late."""
        way = self.directions[side]
        if not self.is_open(side):
            return
        if key is None:
            way.unkeyed += 1
            key = way.unkeyed
        way.queue[key] = item
        if not way.scheduled:
            way.scheduled = True
            heap = self.network.heap
            heap.at(max(heap.now_us, way.next_write_us), self._write, side)

    def close(self, side: int) -> None:
        """Ends the stream behind what was queued; the other end hears of it in order."""
        if self.is_open(side):
            self.closing[side] = None
            self.network.heap.after(costs.WRITE_US, self._closed_here, side)

    def unsent(self, side: int) -> int:
        """Items that wait for the write in flight."""
        return len(self.directions[side].queue)

    def _closed_here(self, side: int) -> None:
        self._write(side)
        way = self.directions[side]
        self.network.forget(self)
        self.ends[side] = None
        way.arrived_us = max(way.arrived_us, self.network.heap.now_us + costs.NETWORK_US)
        self.network.heap.at(way.arrived_us, self.network.peer_closed, self, 1 - side)

    def _write(self, side: int) -> None:
        way = self.directions[side]
        way.scheduled = False
        end = self.ends[side]
        if end is None or not way.queue:
            return
        items = [item() if callable(item) else item for item in way.queue.values()]
        way.queue.clear()
        way.next_write_us = self.network.heap.now_us + costs.WRITE_US
        if way.keep is not None:
            return
        frame = [wire.copied(item) for item in items if item is not None]
        if frame:
            self.network.carry(self, side, way.sent, frame)
            way.sent += 1
