"""For one shape and one label (or nested labels).

How much of it fits in each domain, and who has how much.

The best domain is then a bucket look-up; its cost does not depend on how many nodes or domains
there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from gcs_service.core.placement.amounts import Amounts
from gcs_service.core.placement.room_class import RoomClass

DomainValue = tuple[str, ...]


class DomainFits:
    """Domain -> score; score -> domains. The score counts fitting nodes, or copies (`by_slots`)."""

    __slots__ = ("_by_slots", "amounts", "buckets", "score")

    def __init__(self, amounts: Amounts, *, by_slots: bool) -> None:
        self.amounts = amounts
        self._by_slots = by_slots
        self.score: dict[DomainValue, int] = {}
        self.buckets: dict[int, dict[DomainValue, None]] = {}

    def worth(self, room: RoomClass) -> int:
        """What one node of this class adds to its domain's score."""
        capacity = room.capacity(self.amounts)
        return capacity if self._by_slots else min(capacity, 1)

    def change(self, value: DomainValue, difference: int) -> None:
        """A node came, went or changed its class."""
        if not difference:
            return
        before = self.score.get(value, 0)
        after = before + difference
        assert after >= 0, f"domain {value} would count {after}"
        if before:
            bucket = self.buckets[before]
            del bucket[value]
            if not bucket:
                del self.buckets[before]
        if after:
            self.score[value] = after
            bucket = self.buckets.get(after)
            if bucket is None:
                bucket = self.buckets[after] = {}
            bucket[value] = None
        else:
            del self.score[value]

    def at_least(self, wanted: int) -> Iterator[DomainValue]:
        """Domains with at least `wanted`, tightest first."""
        for score in sorted(score for score in self.buckets if score >= wanted):
            yield from self.buckets[score]

    def best(self) -> tuple[DomainValue, int]:
        """The domain with the highest score (empty value and 0: none)."""
        if not self.buckets:
            return ((), 0)
        score = max(self.buckets)
        return (next(iter(self.buckets[score])), score)
