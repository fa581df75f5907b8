"""Owners that ended: kept ten minutes, so that what arrives after its sender's death is refused.

Durable: an agent that was away while the service restarted must still hear of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from gcs_service import limits
from gcs_service.core import tables
from gcs_service.core.effects import Effect
from gcs_service.core.moment import Moment
from gcs_service.core.tables import Write

_TIME_BYTES = 8


class OwnerTombstones:
    """Dead owners by time of death, oldest first. Purged when touched: no timer.

    Args:
        out: takes the rows to write.
    """

    def __init__(self, out: list[Effect]) -> None:
        self._out = out
        self._died_ms: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._died_ms)

    def load(self, rows: Iterable[tuple[bytes, bytes]], at: Moment) -> None:
        """Rows of the last life; the time that passed meanwhile counts."""
        died_wall = {owner_id: int.from_bytes(value, "big") for owner_id, value in rows}
        for owner_id, wall_ms in sorted(died_wall.items(), key=lambda row: row[1]):
            self._died_ms[owner_id] = at.mono_ms - max(0, at.wall_ms - wall_ms)
        self._purge(at.mono_ms)

    def add(self, owner_id: bytes, at: Moment) -> bool:
        """Buries an owner; False if it was dead before."""
        self._purge(at.mono_ms)
        if owner_id in self._died_ms:
            return False
        self._died_ms[owner_id] = at.mono_ms
        died = at.wall_ms.to_bytes(_TIME_BYTES, "big")
        self._out.append(Write(tables.OWNER, owner_id, died))
        return True

    def is_dead(self, owner_id: bytes) -> bool:
        """Whether this owner is known to be dead."""
        return owner_id in self._died_ms

    def _purge(self, now_ms: int) -> None:
        while self._died_ms:
            oldest = next(iter(self._died_ms))
            young = now_ms - self._died_ms[oldest] < limits.OWNER_TOMBSTONE_MS
            if young and len(self._died_ms) < limits.OWNER_TOMBSTONES_MAX:
                return
            del self._died_ms[oldest]
            self._out.append(Write(tables.OWNER, oldest, None))
