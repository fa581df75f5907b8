"""Redis: one hash a table, one script a batch, fenced so that only the newest service writes.

Durable means what the server makes of it: with `appendonly yes` and `appendfsync always` it
answers when the disk has it. The package is an extra (`shoal[redis]`), imported when it is needed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from cluster_common.transport.logs import get_logger
from gcs_service import limits
from gcs_service.core import tables
from gcs_service.core.tables import Write
from gcs_service.shell.storage.protocol import StorageError, StoreTakenError

log = get_logger()

SCHEMES = ("redis", "rediss", "unix")
_PREFIX = "shoal:"
_WRITER = f"{_PREFIX}writer"
"""Who writes: a service that starts puts its token here, and the one before it is fenced off."""

_COMMIT = """
local writer = redis.call('GET', KEYS[1])
if writer ~= ARGV[1] then return writer or '' end
local i = 2
while i <= #ARGV do
  if ARGV[i] == '1' then
    redis.call('HSET', ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    i = i + 4
  else
    redis.call('HDEL', ARGV[i + 1], ARGV[i + 2])
    i = i + 3
  end
end
return 'ok'
"""
_SCAN_ROWS = 1_000


class RedisStorage:
    """One Redis database. Used from one thread at a time; a lost connection is dialled again.

    Args:
        url: `redis://[user:password@]host:port/database`; shown without the password.
        takes_over: this service writes from now on, the one before it is fenced off. Without it
            a service that runs is not disturbed, and there is nothing to commit before `take_over`.
    """

    name = "redis"
    is_instant = False
    is_remote = True

    def __init__(self, url: str, *, takes_over: bool = True) -> None:
        try:
            import redis
        except ImportError as error:
            message = "storage redis needs the package redis: pip install 'shoal[redis]'"
            raise StorageError(message) from error
        self._errors: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        self.place = without_password(url)
        self._token = secrets.token_hex(16).encode()
        try:
            client: Any = redis.Redis  # the types of its arguments are incomplete
            self._client: Any = client.from_url(
                url,
                socket_timeout=limits.REDIS_TIMEOUT_S,
                socket_connect_timeout=limits.REDIS_TIMEOUT_S,
            )
            self._script: Any = self._client.register_script(_COMMIT)
            self._client.ping()
            if takes_over:
                self.take_over()
        except (*self._errors, ValueError) as error:
            raise StorageError(f"cannot open the store at {self.place}: {error}") from error

    def take_over(self) -> None:
        """From now on this is who writes; a service that does ends."""
        try:
            self._client.set(_WRITER, self._token)
        except self._errors as error:
            raise StorageError(f"cannot write {self.place}: {error}") from error
        self._warn_unless_durable()

    def load(self, table: str) -> list[tuple[bytes, bytes]]:
        """All rows of a table in key order.

        Raises:
            StorageError: it cannot be read.
        """
        try:
            rows: dict[bytes, bytes] = dict(
                self._client.hscan_iter(_hash_of(table), count=_SCAN_ROWS)
            )
        except self._errors as error:
            raise StorageError(f"cannot read {self.place}: {error}") from error
        return sorted(rows.items())

    def commit(self, writes: Sequence[Write]) -> None:
        """One script: atomic, and written to the append-only file as one transaction.

        Raises:
            StorageError: not acknowledged; doing it again is harmless.
            StoreTakenError: a newer service writes here now.
        """
        arguments: list[bytes | str] = [self._token]
        for write in writes:
            if write.value is None:
                arguments += ["0", _hash_of(write.table), write.key]
            else:
                arguments += ["1", _hash_of(write.table), write.key, write.value]
        try:
            said: bytes = self._script(keys=[_WRITER], args=arguments)
        except self._errors as error:
            raise StorageError(f"cannot write {self.place}: {error}") from error
        if said == b"ok":
            return
        if not said:
            raise StorageError(
                f"the store at {self.place} lost its rows (is appendonly off?):"
                " restore them, or restart this service to begin from what is there"
            )
        raise StoreTakenError(f"another control service writes to {self.place} now")

    def wipe(self) -> None:
        """Forgets every row, durably.

        Raises:
            StorageError: it cannot be reached.
        """
        try:
            self._client.delete(*(_hash_of(table) for table in tables.ALL_TABLES))
        except self._errors as error:
            raise StorageError(f"cannot wipe {self.place}: {error}") from error

    def size_bytes(self) -> int:
        """Bytes the server uses in memory.

        Raises:
            StorageError: it cannot be reached.
        """
        try:
            return int(self._client.info("memory")["used_memory"])
        except self._errors as error:
            raise StorageError(f"cannot ask {self.place}: {error}") from error

    def close(self) -> None:
        """Closes the connections; idempotent."""
        self._client.close()

    def _warn_unless_durable(self) -> None:
        wanted = {"appendonly": "yes", "appendfsync": "always"}
        try:
            stated = {name: self._client.config_get(name).get(name) for name in wanted}
        except self._errors:
            return  # CONFIG is not for everybody: who runs the server knows what it promises
        if stated != wanted:
            log.warning("store_may_forget", place=self.place, settings=stated, wanted=wanted)


def without_password(url: str) -> str:
    """The address for messages and logs."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}:{parts.port or 6379}{parts.path}"


def _hash_of(table: str) -> str:
    assert table in tables.ALL_TABLES, f"unknown table {table}"
    return f"{_PREFIX}{table}"
