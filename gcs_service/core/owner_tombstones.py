"""Owners that ended: kept ten minutes, so that what arrives after its sender's death is refused."""

from __future__ import annotations

from gcs_service import limits


class OwnerTombstones:
    """Dead owners by time of death. Purged when touched: no timer."""

    def __init__(self) -> None:
        self._died_ms: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._died_ms)

    def add(self, owner_id: bytes, now_ms: int) -> bool:
        """Buries an owner; False if it was dead before."""
        self._purge(now_ms)
        if owner_id in self._died_ms:
            return False
        self._died_ms[owner_id] = now_ms
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
