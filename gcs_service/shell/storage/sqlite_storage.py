"""SQLite: WAL, `synchronous=FULL`, one transaction a batch (GRPC_COSTS section 8)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from gcs_service.core import tables
from gcs_service.core.tables import Write
from gcs_service.shell.storage.protocol import StorageError

FILE_NAME = "gcs.sqlite3"
_STATEMENT_ROWS = 1_000
"""Rows of one statement; SQLite allows 32,766 parameters."""
_WAL_PAGES = 4_000
"""Checkpoint after this many pages: the log file stays near 16 MB."""


class SqliteStorage:
    """One file in `folder`. Used from one thread at a time (the journal's); not bound to it."""

    name = "sqlite"
    is_instant = False
    is_remote = False

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / FILE_NAME
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                self._path, check_same_thread=False, isolation_level=None, timeout=1.0
            )
            # A second service on the same file would fork the cluster's history.
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(f"PRAGMA wal_autocheckpoint={_WAL_PAGES}")
            self._db.execute("BEGIN IMMEDIATE")
            for table in tables.ALL_TABLES:
                self._db.execute(
                    f"CREATE TABLE IF NOT EXISTS {table}"
                    " (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
                )
            self._db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"cannot open {self._path}: {error}") from error

    def take_over(self) -> None:
        """Its lock is held since it was opened."""

    def load(self, table: str) -> list[tuple[bytes, bytes]]:
        """All rows of a table in key order."""
        _check_table(table)
        return list(self._db.execute(f"SELECT key, value FROM {table} ORDER BY key"))  # noqa: S608 - a name of ALL_TABLES

    def commit(self, writes: Sequence[Write]) -> None:
        """One durable transaction.

        Raises:
            StorageError: it was rolled back.
        """
        try:
            statements = _statements(_newest(writes))
            if len(statements) == 1:  # is a transaction by itself
                self._db.execute(*statements[0])
                return
            self._db.execute("BEGIN")
            for statement in statements:
                self._db.execute(*statement)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # some errors end it by themselves
                    self._db.execute("ROLLBACK")
            raise StorageError(f"cannot write {self._path}: {error}") from error

    def wipe(self) -> None:
        """Forgets every row, durably."""
        self._db.execute("BEGIN")
        for table in tables.ALL_TABLES:
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of ALL_TABLES
        self._db.execute("COMMIT")

    def size_bytes(self) -> int:
        """Bytes on disk, log included."""
        files = (self._path, self._path.with_name(FILE_NAME + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Closes the file; idempotent."""
        self._db.close()


def _newest(writes: Sequence[Write]) -> dict[str, dict[bytes, bytes | None]]:
    """The last write of each key, by table: a batch often changes a row several times."""
    newest: dict[str, dict[bytes, bytes | None]] = {}
    for write in writes:
        _check_table(write.table)
        newest.setdefault(write.table, {})[write.key] = write.value
    return newest


def _statements(
    newest: dict[str, dict[bytes, bytes | None]],
) -> list[tuple[str, list[bytes]]]:
    """Few and large ones: after each, this thread queues for the interpreter again."""
    statements: list[tuple[str, list[bytes]]] = []
    for table, rows in newest.items():
        kept = [(key, value) for key, value in rows.items() if value is not None]
        gone = [key for key, value in rows.items() if value is None]
        for first in range(0, len(kept), _STATEMENT_ROWS):
            part = kept[first : first + _STATEMENT_ROWS]
            marks = ",".join(["(?,?)"] * len(part))
            text = f"INSERT OR REPLACE INTO {table} VALUES {marks}"  # noqa: S608 - a checked name
            statements.append((text, [field for row in part for field in row]))
        for first in range(0, len(gone), _STATEMENT_ROWS):
            keys = gone[first : first + _STATEMENT_ROWS]
            marks = ",".join("?" * len(keys))
            statements.append((f"DELETE FROM {table} WHERE key IN ({marks})", keys))  # noqa: S608 - same
    return statements


def _check_table(table: str) -> None:
    assert table in tables.ALL_TABLES, f"unknown table {table}"
