"""Tables in memory: for tests and clusters that need not outlive their control service."""

from __future__ import annotations

from collections.abc import Sequence

from gcs_service.core import tables
from gcs_service.core.tables import Write


class MemoryStorage:
    """Rows in dicts. A second instance over the same `rows` is a restart."""

    name = "memory"
    is_instant = True
    is_remote = False

    def __init__(self, rows: dict[str, dict[bytes, bytes]] | None = None) -> None:
        self._rows = rows if rows is not None else {}
        for table in tables.ALL_TABLES:
            self._rows.setdefault(table, {})

    def take_over(self) -> None:
        """Nobody else has it."""

    def load(self, table: str) -> list[tuple[bytes, bytes]]:
        """All rows of a table in key order."""
        return sorted(self._rows[table].items())

    def commit(self, writes: Sequence[Write]) -> None:
        """Applies the rows."""
        for write in writes:
            if write.value is None:
                self._rows[write.table].pop(write.key, None)
            else:
                self._rows[write.table][write.key] = write.value

    def wipe(self) -> None:
        """Forgets every row."""
        for rows in self._rows.values():
            rows.clear()

    def size_bytes(self) -> int:
        """Bytes of keys and values."""
        return sum(
            len(key) + len(value)
            for rows in list(self._rows.values())
            for key, value in list(rows.items())
        )

    def close(self) -> None:
        """Nothing is open."""
