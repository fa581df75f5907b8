"""What a storage back end must do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gcs_service.core.tables import Write


class Storage(Protocol):
    """Durable key-value tables. One writer at a time; `load` before the first `commit`.

    `is_instant`: `commit` costs no I/O, so that it needs no thread of its own.
    `is_remote`: it can be lost while nobody uses it; an empty `commit` notices.
    """

    name: str
    is_instant: bool
    is_remote: bool

    def take_over(self) -> None:
        """From now on nobody else writes here; a service does this when it opens the store.

        Raises:
            StorageError: it cannot be written.
        """
        ...

    def load(self, table: str) -> list[tuple[bytes, bytes]]:
        """All rows of a table in key order."""
        ...

    def commit(self, writes: Sequence[Write]) -> None:
        """Makes all rows durable, all or none; later rows win over earlier ones of the same key.

        Raises:
            StorageError: nothing of the batch is promised.
        """
        ...

    def wipe(self) -> None:
        """Forgets every row."""
        ...

    def size_bytes(self) -> int:
        """Bytes used, for status."""
        ...

    def close(self) -> None:
        """Releases what is open; idempotent."""
        ...


class StorageError(RuntimeError):
    """The back end failed; names the file or server and the cause. May be over a moment later."""


class StoreTakenError(StorageError):
    """Somebody else writes to this store now: this service must end, two would fork history."""


class StoreLostError(StorageError):
    """What an asker is told whose write was under way when the store was lost."""
