"""Interned vectors of free room.

A decision touches classes, not nodes: ten thousand equal nodes are one.

Every step that would repeat per node is remembered on the class: what is left after one bundle, how
many copies of a shape fit.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster_common.resources import DEVICE_RESOURCES
from gcs_service.core.placement import devices as device_rules
from gcs_service.core.placement.amounts import Amounts
from gcs_service.core.placement.devices import Devices
from gcs_service.core.placement.limits import CAPACITY_MAX, CLASS_MEMO_MAX, ROOM_CLASSES_MAX

DeviceItems = tuple[tuple[str, Devices], ...]


class RoomClass:
    """One vector of room (amounts may be below zero.

    Leases an agent granted meanwhile) and its memos.
    """

    __slots__ = ("_capacities", "_less", "devices", "number", "room", "table")

    def __init__(
        self, table: RoomClasses, number: int, room: dict[str, int], devices: DeviceItems
    ) -> None:
        self.table = table
        self.number = number
        self.room = room
        self.devices = devices
        self._less: dict[int, RoomClass] = {}
        self._capacities: dict[int, int] = {}

    def capacity(self, amounts: Amounts) -> int:
        """How many copies of `amounts` fit here, 0 .. CAPACITY_MAX."""
        known = self._capacities.get(amounts.number)
        if known is not None:
            return known
        if len(self._capacities) >= CLASS_MEMO_MAX:
            self._capacities.clear()
        count = max(0, self._count_capacity(amounts))
        self._capacities[amounts.number] = count
        return count

    def _count_capacity(self, amounts: Amounts) -> int:
        room = self.room
        best = CAPACITY_MAX
        for name, amount in amounts.items:
            count = room.get(name, 0) // amount
            best = min(best, count)
        if amounts.devices and best > 0:
            wanted = dict(amounts.devices)
            for name, free in self.devices:
                if name in wanted:
                    best = min(best, device_rules.capacity(free, wanted[name]))
        return best

    def less(self, amounts: Amounts) -> RoomClass:
        """The class after `amounts` were taken (no check: the ledger asserts)."""
        known = self._less.get(amounts.number)
        if known is not None:
            return known
        made = self.table.intern(*self._changed(amounts, -1))
        if len(self._less) >= CLASS_MEMO_MAX:
            self._less.clear()
        self._less[amounts.number] = made
        return made

    def more(self, amounts: Amounts) -> RoomClass:
        """The class after `amounts` came back."""
        return self.table.intern(*self._changed(amounts, 1))

    def _changed(self, amounts: Amounts, sign: int) -> tuple[dict[str, int], DeviceItems]:
        room = dict(self.room)
        for name, amount in amounts.items:
            room[name] = room.get(name, 0) + sign * amount
        if not amounts.devices:
            return room, self.devices
        change = device_rules.give if sign > 0 else device_rules.take
        wanted = dict(amounts.devices)
        devices = tuple((name, change(free, wanted.get(name, ()))) for name, free in self.devices)
        return room, devices

    def grew(self, before: RoomClass, amounts: Amounts) -> bool:
        """Whether a request for `amounts` may fare better here than in the class `before`."""
        if self.capacity(amounts) < 1:
            return False
        for name, _amount in amounts.items:
            if self.room.get(name, 0) > before.room.get(name, 0):
                return True
        return bool(amounts.devices) and self.devices != before.devices

    def wastes_devices_on(self, amounts: Amounts) -> bool:
        """Whether this room has devices that `amounts` does not ask for."""
        return not amounts.devices and any(self.room.get(name, 0) > 0 for name in DEVICE_RESOURCES)

    def forget(self) -> None:
        """Drops the memos (the table calls it when it is emptied)."""
        self._less.clear()
        self._capacities.clear()


class RoomClasses:
    """Vector -> the one live class for it."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[tuple[tuple[str, int], ...], DeviceItems], RoomClass] = {}
        self._count = 0
        self.reported: dict[tuple[bytes, DeviceItems], RoomClass] = {}
        """What reported vectors were interned to, by their bytes (see `node_room`)."""
        self.empty = self.intern({}, ())

    def __len__(self) -> int:
        return len(self._by_key)

    def intern(self, room: Mapping[str, int], devices: DeviceItems = ()) -> RoomClass:
        """The shared class of this room; zero amounts do not count."""
        items = tuple(sorted((name, amount) for name, amount in room.items() if amount))
        key = (items, devices)
        found = self._by_key.get(key)
        if found is not None:
            return found
        if len(self._by_key) >= ROOM_CLASSES_MAX:
            for forgotten in self._by_key.values():
                forgotten.forget()
            self._by_key.clear()
            self.reported.clear()
        self._count += 1
        made = RoomClass(self, self._count, dict(items), devices)
        self._by_key[key] = made
        return made

    def remember(self, encoded: tuple[bytes, DeviceItems], room: RoomClass) -> None:
        """Keeps the class of a reported vector."""
        if len(self.reported) >= ROOM_CLASSES_MAX:
            self.reported.clear()
        self.reported[encoded] = room
