"""For one shape: the live classes that hold it, by how many copies they hold."""

from __future__ import annotations

from collections.abc import Iterator

from gcs_service.core.placement.amounts import Amounts
from gcs_service.core.placement.room_class import RoomClass

BucketKey = tuple[bool, int]
"""(has devices the shape does not want, copies): plain nodes come before device nodes."""


class ShapeFits:
    """Buckets of live classes. Kept by `Pool` as classes are born and die."""

    __slots__ = ("amounts", "buckets")

    def __init__(self, amounts: Amounts) -> None:
        self.amounts = amounts
        self.buckets: dict[BucketKey, dict[RoomClass, None]] = {}

    def born(self, room: RoomClass) -> None:
        """The class has its first member."""
        capacity = room.capacity(self.amounts)
        if not capacity:
            return
        key = (room.wastes_devices_on(self.amounts), capacity)
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = {}
        bucket[room] = None

    def died(self, room: RoomClass) -> None:
        """The class lost its last member."""
        capacity = room.capacity(self.amounts)
        if not capacity:
            return
        key = (room.wastes_devices_on(self.amounts), capacity)
        bucket = self.buckets[key]
        del bucket[room]
        if not bucket:
            del self.buckets[key]

    def tightest_first(self) -> Iterator[tuple[int, RoomClass]]:
        """(copies, class), fewest copies first."""
        for key in sorted(self.buckets):
            for room in self.buckets[key]:
                yield key[1], room

    def roomiest_first(self) -> Iterator[tuple[int, RoomClass]]:
        """(copies, class), most copies first."""
        for key in sorted(self.buckets, key=lambda key: (key[0], -key[1])):
            for room in self.buckets[key]:
                yield key[1], room
