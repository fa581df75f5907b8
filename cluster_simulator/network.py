"""Delay, jitter, breaks, partitions. One object for the whole cluster."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from cluster_simulator import costs
from cluster_simulator.event_heap import EventHeap
from cluster_simulator.link import End, Link


class Listener(End, Protocol):
    """A process that listens at an address."""

    def link_accepted(self, link: Link) -> None:
        """Somebody dialled; its first frame follows."""
        ...


class Network:
    """Who listens where, which links are open, who is cut off, who is slow."""

    def __init__(self, heap: EventHeap, dice: Random) -> None:
        self.heap = heap
        self.dice = dice
        self.listeners: dict[str, Listener] = {}
        self.links: dict[int, Link] = {}
        self._of: dict[int, dict[int, Link]] = {}
        self._cut: dict[int, End] = {}
        self._slow_us: dict[int, int] = {}
        self._number = 0
        self.frames = 0
        self.items = 0

    # ---- links

    def connect(self, kind: str, client: End, address: str) -> Link:
        """A link that the listener sees with the first frame."""
        self._number += 1
        link = Link(self, self._number, kind, client, address)
        self.links[link.number] = link
        self._of.setdefault(id(client), {})[link.number] = link
        self.heap.after(costs.CONNECT_TIMEOUT_US, self._connect_expired, link)
        return link

    def forget(self, link: Link) -> None:
        """Both ends will know that it is over."""
        self.links.pop(link.number, None)
        for end in link.ends:
            if end is not None:
                self._of.get(id(end), {}).pop(link.number, None)

    def links_of(self, end: End) -> list[Link]:
        """Open links of one process, oldest first."""
        return list(self._of.get(id(end), {}).values())

    def carry(self, link: Link, side: int, number: int, frame: list[Any]) -> None:
        """A frame leaves."""
        self.frames += 1
        self.items += len(frame)
        if self._is_cut(link):
            link.directions[side].held.append((number, frame))
            return
        self._schedule(link, side, number, frame)

    def _schedule(self, link: Link, side: int, number: int, frame: list[Any]) -> None:
        way = link.directions[side]
        delay = costs.NETWORK_US + self.dice.randrange(costs.NETWORK_JITTER_US)
        sender = link.ends[side]
        if self._slow_us and sender is not None:
            delay += self._slow_us.get(id(sender), 0)
        way.arrived_us = max(way.arrived_us, self.heap.now_us + delay)
        self.heap.at(way.arrived_us, self._arrive, link, side, number, frame)

    def _arrive(self, link: Link, side: int, number: int, frame: list[Any]) -> None:
        way = link.directions[side]
        if way.keep is not None and number >= way.keep:
            return
        if side == 0 and number == 0 and link.ends[1] is None:
            listener = self.listeners.get(link.address)
            if listener is None or not listener.alive:
                self._refuse(link)
                return
            link.ends[1] = listener
            self._of.setdefault(id(listener), {})[link.number] = link
            listener.link_accepted(link)
        way.delivered = number + 1
        receiver = link.ends[1 - side]
        if receiver is not None and receiver.alive:
            receiver.link_frame(link, frame)

    def _refuse(self, link: Link) -> None:
        self.forget(link)
        self.heap.after(costs.NETWORK_US, self._refused, link)

    def _refused(self, link: Link) -> None:
        self.peer_closed(link, 0, refused=True)

    def _connect_expired(self, link: Link) -> None:
        if link.number in self.links and link.ends[1] is None:
            self.forget(link)
            self.peer_closed(link, 0)

    def peer_closed(self, link: Link, side: int, *, refused: bool = False) -> None:
        """One end learns that the stream is over."""
        end = link.ends[side]
        link.ends[side] = None
        if end is not None:
            self._of.get(id(end), {}).pop(link.number, None)
            if end.alive:
                end.link_closed(link, refused=refused)

    # ---- faults

    def break_link(self, link: Link, *, slow_to_see_us: int = 0) -> None:
        """The connection is lost: a part of what was on the way still arrives."""
        self.links.pop(link.number, None)
        for side in (0, 1):
            way = link.directions[side]
            if way.keep is not None:
                continue
            held = way.held[0][0] if way.held else way.sent
            way.held.clear()
            way.keep = self.dice.randint(way.delivered, max(way.delivered, held))
            seen_us = self.heap.now_us + self.dice.randrange(costs.DETECT_US)
            if slow_to_see_us and self.dice.random() < 0.5:
                seen_us += self.dice.randrange(slow_to_see_us)
            # Behind what still arrives: the stream tells in order.
            self.heap.at(max(seen_us, way.arrived_us), self.peer_closed, link, 1 - side)

    def crashed(self, end: End) -> None:
        """A process is gone: its streams break, nobody listens there any more."""
        for link in self.links_of(end):
            self.break_link(link)
            side = link.side_of(end)
            link.ends[side] = None
        self._of.pop(id(end), None)
        self._cut.pop(id(end), None)
        self._slow_us.pop(id(end), None)
        for address in [a for a, listener in self.listeners.items() if listener is end]:
            del self.listeners[address]

    def cut(self, end: End) -> None:
        """Nothing comes from or to this process; TCP keeps what was sent for a while."""
        self._cut[id(end)] = end
        for link in self.links_of(end):
            self.heap.after(
                costs.KEEPALIVE_US // 2 + self.dice.randrange(costs.KEEPALIVE_US),
                self._keepalive,
                link,
            )

    def heal(self, end: End) -> None:
        """It is connected again: what was held goes on its way."""
        self._cut.pop(id(end), None)
        for link in self.links_of(end):
            if self._is_cut(link):
                continue
            for side in (0, 1):
                way = link.directions[side]
                held, way.held = way.held, []
                for number, frame in held:
                    self._schedule(link, side, number, frame)

    def slow(self, end: End, extra_us: int) -> None:
        """What this process sends takes longer; 0 ends that."""
        if extra_us:
            self._slow_us[id(end)] = extra_us
        else:
            self._slow_us.pop(id(end), None)

    def is_cut(self, end: End) -> bool:
        """Whether a process is cut off."""
        return id(end) in self._cut

    def _is_cut(self, link: Link) -> bool:
        if not self._cut:
            return False
        if any(end is not None and id(end) in self._cut for end in link.ends):
            return True
        listener = self.listeners.get(link.address)
        return listener is not None and id(listener) in self._cut

    def _keepalive(self, link: Link) -> None:
        if link.number in self.links and self._is_cut(link):
            self.break_link(link, slow_to_see_us=costs.KEEPALIVE_US)

    # ---- single questions

    def probe(self, asker: End, address: str, found: Callable[[str], None]) -> None:
        """Dials a port: `answered`, `refused` or `silent`."""
        listener = self.listeners.get(address)
        cut = id(asker) in self._cut or (listener is not None and id(listener) in self._cut)
        if cut:
            self.heap.after(costs.PROBE_SILENT_US, self._probed, asker, found, "silent")
            return
        word = "answered" if listener is not None and listener.alive else "refused"
        delay = 2 * costs.NETWORK_US + self.dice.randrange(costs.NETWORK_JITTER_US)
        self.heap.after(delay, self._probed, asker, found, word)

    def _probed(self, asker: End, found: Callable[[str], None], word: str) -> None:
        if asker.alive:
            found(word)

    def delay_us(self) -> int:
        """One way."""
        return costs.NETWORK_US + self.dice.randrange(costs.NETWORK_JITTER_US)

    def is_reachable(self, one: End, other: End) -> bool:
        """Whether a single message gets through now."""
        return id(one) not in self._cut and id(other) not in self._cut
