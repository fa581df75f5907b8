"""Ids that must be refused for a while, bounded in age and number."""

from __future__ import annotations


class Tombstones:
    """Remembers ids with a value; the oldest go first when there are too many."""

    def __init__(self, age_ms_max: int, count_max: int) -> None:
        self._age_ms_max = age_ms_max
        self._count_max = count_max
        self._made: dict[bytes, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._made)

    def add(self, identity: bytes, now_ms: int, value: int = 0) -> None:
        """Buries an id; doing it again renews its age and keeps the larger value."""
        known = self._made.pop(identity, None)
        self._made[identity] = (now_ms, value if known is None else max(value, known[1]))
        self._trim(now_ms)

    def get(self, identity: bytes, now_ms: int) -> int | None:
        """The value of a buried id, None if it is not (or no longer) buried."""
        known = self._made.get(identity)
        if known is None:
            return None
        if now_ms - known[0] > self._age_ms_max:
            del self._made[identity]
            return None
        return known[1]

    def drop(self, identity: bytes) -> None:
        """Forgets an id."""
        self._made.pop(identity, None)

    def _trim(self, now_ms: int) -> None:
        while self._made:
            oldest = next(iter(self._made))
            too_old = now_ms - self._made[oldest][0] > self._age_ms_max
            if not too_old and len(self._made) <= self._count_max:
                return
            del self._made[oldest]
