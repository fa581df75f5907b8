"""What the GCS knows of one node's room: newest snapshot minus reservations it does not cover.

    room = snapshot.available - reserved + given back (answered), both numbered above `applied`

Nothing here is undone by a timer, nothing is clamped. A reservation leaves when the node's own
counter covers it or the node refused it. Room below zero is possible and honest: the agent granted
leases while a reservation was on its way; the refusal will come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from cluster_common.identity_resources import identity_of, without_identity
from cluster_common.resources import DEVICE_RESOURCES, is_group_name
from gcs_service.core.placement.amounts import Amounts
from gcs_service.core.placement.room_class import DeviceItems, RoomClass, RoomClasses

if TYPE_CHECKING:
    from gcs_service.core.placement.holding import Holding


_NOTHING: dict[str, int] = {}
"""Shared: a dict of its own for each of ten thousand nodes is walked by each collection."""


class Reservation:
    """One numbered command's effect on the room: `sign` -1 takes, +1 gives back once `known`."""

    __slots__ = ("amounts", "known", "sequence", "sign")

    def __init__(self, sequence: int, amounts: Amounts, sign: int, *, known: bool) -> None:
        self.sequence = sequence
        self.amounts = amounts
        self.sign = sign
        self.known = known


class NodeRoom:
    """One node: identity, labels, ledger, what it holds. Only the placement core changes it."""

    __slots__ = (
        "address",
        "applied",
        "base_class",
        "claimed_by",
        "classes",
        "connected",
        "drain_ordered",
        "drain_reported",
        "holdings",
        "identity_used",
        "is_head",
        "joined",
        "labels",
        "names_shown",
        "next_sequence",
        "node_id",
        "order",
        "repeat_at_ms",
        "reservations",
        "room_class",
        "singles",
        "snapshot_version",
        "suspect_sequence",
        "suspect_until_ms",
        "total_class",
    )

    def __init__(self, node_id: bytes, order: int, classes: RoomClasses) -> None:
        self.node_id = node_id
        self.order = order
        self.classes = classes
        self.address = ""
        self.labels: dict[str, str] = {}
        self.is_head = False
        self.identity_used = _NOTHING
        self.names_shown: tuple[str, ...] = ()
        """Which of `identity` count in the vectors of room (see `asked_names`)."""
        self.joined = False
        self.connected = False
        self.drain_ordered = False
        self.drain_reported = False
        self.claimed_by: bytes = b""
        self.suspect_until_ms = 0
        self.suspect_sequence = 0
        self.repeat_at_ms = 0
        self.holdings: dict[tuple[bytes, int], Holding] = {}
        self.total_class = classes.empty
        self.base_class = classes.empty
        self.room_class = classes.empty
        self.snapshot_version = 0
        self.applied = 0
        self.next_sequence = 1
        self.reservations: dict[int, Reservation] = {}
        self.singles: dict[int, None] = {}
        """Reservations that are no bundle's, by number, until covered."""

    @property
    def identity(self) -> dict[str, int]:
        """What it has of the resources that name it."""
        return identity_of(self.address, is_head=self.is_head)

    @property
    def draining(self) -> bool:
        """Ordered by the GCS (a report that is older than the order changes nothing).

        Or said by the node.
        """
        return self.drain_ordered or self.drain_reported

    @property
    def suspect(self) -> bool:
        """Refused a prepare and has not explained itself yet."""
        return self.suspect_until_ms > 0

    @property
    def usable(self) -> bool:
        """Whether new bundles may go here."""
        return (
            self.connected
            and not self.draining
            and not self.claimed_by
            and not self.suspect_until_ms
        )

    def begin_session(
        self, address: str, labels: Mapping[str, str], *, is_head: bool = False
    ) -> None:
        """A session starts: numbering restarts, what was in flight is void."""
        self.address = address
        self.labels = dict(labels)
        self.is_head = is_head
        self.identity_used = _NOTHING
        self.joined = True
        self.connected = True
        self.suspect_until_ms = 0
        self.suspect_sequence = 0
        self.snapshot_version = 0
        self.applied = 0
        self.next_sequence = 1
        self.reservations.clear()
        self.singles.clear()

    def report(self, snapshot: ns.ResourceSnapshot) -> bool:
        """Takes a newer snapshot; False for one that is not newer."""
        if snapshot.version <= self.snapshot_version and self.snapshot_version:
            return False
        self.snapshot_version = snapshot.version
        self.applied = max(self.applied, snapshot.applied_reservations)
        self.base_class = self._class_of(snapshot.available, _devices(snapshot))
        self.total_class = self._class_of(snapshot.total, ())
        named = snapshot.HasField("identity_used")
        self.identity_used = dict(snapshot.identity_used.amounts) if named else _NOTHING
        if self.names_shown:
            self._count_names()
        covered = [number for number in self.reservations if number <= self.applied]
        for number in covered:
            del self.reservations[number]
            self.singles.pop(number, None)
        self._recount()
        return True

    def _class_of(self, amounts: t.ResourceSet, devices: DeviceItems) -> RoomClass:
        """Nodes report the same vectors over and over: their bytes lead to the class."""
        encoded = (amounts.SerializeToString(), devices)
        found = self.classes.reported.get(encoded)
        if found is None:
            found = self.classes.intern(_plain(amounts.amounts), devices)
            self.classes.remember(encoded, found)
        return found

    def show(self, names: tuple[str, ...]) -> None:
        """Counts these names of the node in its vectors of room, and no others."""
        if names != self.names_shown:
            self.names_shown = names
            self._count_names()
            self._recount()

    def _count_names(self) -> None:
        identity = self.identity
        total = {name: identity[name] for name in self.names_shown}
        free = {name: amount - self.identity_used.get(name, 0) for name, amount in total.items()}
        base, whole = self.base_class, self.total_class
        self.base_class = self.classes.intern({**without_identity(base.room), **free}, base.devices)
        self.total_class = self.classes.intern(
            {**without_identity(whole.room), **total}, whole.devices
        )

    def number_command(self) -> int:
        """The next reservation number, for a command without effect on the room."""
        number = self.next_sequence
        self.next_sequence += 1
        return number

    def reserve(self, amounts: Amounts, *, checked: bool = True) -> int:
        """Takes room for a command about to be sent; its number."""
        if checked and not amounts.several_parts:
            # Several fractions of devices: only the node knows whether they still pack.
            assert self.room_class.capacity(amounts) >= 1, (
                f"node {self.node_id.hex()} has {self.room_class.room}, not {amounts.vector}"
            )
        number = self.number_command()
        self.reservations[number] = Reservation(number, amounts, -1, known=True)
        self.room_class = self.room_class.less(amounts)
        return number

    def will_give_back(self, amounts: Amounts) -> int:
        """Numbers a command that gives room back.

        It counts when `gave_back` says so, or when covered.
        """
        number = self.number_command()
        self.reservations[number] = Reservation(number, amounts, 1, known=False)
        return number

    def gave_back(self, sequence: int) -> None:
        """The node answered: that room is free."""
        entry = self.reservations.get(sequence)
        if entry is not None and entry.sign > 0 and not entry.known:
            entry.known = True
            self.room_class = self.room_class.more(entry.amounts)

    def refused(self, sequence: int) -> None:
        """The node did not take this reservation."""
        if self.reservations.pop(sequence, None) is not None:
            self._recount()

    def _recount(self) -> None:
        room = self.base_class
        for entry in self.reservations.values():
            if entry.sign < 0:
                room = room.less(entry.amounts)
            elif entry.known:
                room = room.more(entry.amounts)
        self.room_class = room


def _plain(amounts: Mapping[str, int]) -> dict[str, int]:
    """Amounts without the names that committed bundles make."""
    return {name: amount for name, amount in amounts.items() if amount and not is_group_name(name)}


def _devices(snapshot: ns.ResourceSnapshot) -> DeviceItems:
    if not snapshot.devices:
        return ()
    return tuple(
        (name, tuple(sorted(snapshot.devices[name].free, reverse=True)))
        for name in DEVICE_RESOURCES
        if name in snapshot.devices
    )


def room_of(node: NodeRoom) -> RoomClass:
    """Where the node stands in the index of free room."""
    return node.room_class


def total_of(node: NodeRoom) -> RoomClass:
    """Where the node stands in the index of totals (what could ever fit)."""
    return node.total_class
