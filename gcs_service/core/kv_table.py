"""The key-value store: namespaces, revisions, conditional puts, expiry, a quota per namespace.

Written so that a put's answer says who won (FIELD_REPORTS O-16): `written` is True exactly when the
caller's value is now the stored one.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable

import msgspec

from gcs_service import limits
from gcs_service.core import effects, tables
from gcs_service.core.effects import Refusal
from gcs_service.core.moment import Moment
from gcs_service.core.tables import Write

_FEW_ROWS = 64


class KvRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One stored value. `expires_wall_ms` 0: never; wall time, since it outlives the process."""

    value: bytes
    revision: int
    expires_wall_ms: int


class PutOutcome(msgspec.Struct, frozen=True, gc=False):
    """`revision`: of the stored value, the caller's or the winner's; 0 when there is none."""

    written: bool
    revision: int
    added: bool


_encode_row = msgspec.msgpack.Encoder().encode
_decode_row = msgspec.msgpack.Decoder(KvRow).decode


class _Namespace:
    __slots__ = ("bytes_used", "keys", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, KvRow] = {}
        self.keys: list[bytes] = []  # sorted: prefixes are ranges
        self.bytes_used = 0


class KvTable:
    """All namespaces. Revisions are one counter over the whole store; `writes` collects rows."""

    def __init__(self, quota_bytes: int = limits.KV_NAMESPACE_BYTES_MAX) -> None:
        self._quota_bytes = quota_bytes
        self._spaces: dict[str, _Namespace] = {}
        self._revision = 0
        self._rows = 0
        self._expiries: list[tuple[int, str, bytes]] = []
        self.writes: list[Write] = []

    @property
    def rows(self) -> int:
        """Rows in all namespaces."""
        return self._rows

    def bounds(self) -> list[tuple[str, int, int]]:
        """Name, rows and cap of the table and of what is kept beside it."""
        moments = limits.DEADLINES_SHARE * max(limits.KV_ROWS_MAX, _FEW_ROWS)
        return [
            (tables.KV, self._rows, limits.KV_ROWS_MAX),
            ("kv_namespace", len(self._spaces), limits.KV_ROWS_MAX),
            ("kv_expiry", len(self._expiries), moments),
        ]

    @property
    def bytes_used(self) -> int:
        """Bytes of keys and values in all namespaces."""
        return sum(space.bytes_used for space in list(self._spaces.values()))

    def load(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """The rows of the last life of the service."""
        for row_key, blob in rows:
            namespace, key = _split(row_key)
            row = _decode_row(blob)
            self._revision = max(self._revision, row.revision)
            space = self._spaces.setdefault(namespace, _Namespace())
            space.rows[key] = row
            space.bytes_used += len(key) + len(row.value)
            self._rows += 1
            self._note_expiry(namespace, key, row)
        for space in self._spaces.values():
            space.keys = sorted(space.rows)

    def put(
        self,
        namespace: str,
        key: bytes,
        value: bytes,
        *,
        if_absent: bool,
        if_revision: int | None,
        ttl_ms: int,
        at: Moment,
    ) -> PutOutcome | Refusal:
        """Stores a value, perhaps under a condition (`if_revision` 0: the key must not exist)."""
        self._purge(at)
        refusal = _check_sizes(namespace, key, value)
        if refusal is not None:
            return refusal
        current = self._live(namespace, key, at)
        present = current.revision if current is not None else 0
        if (if_absent and present) or (if_revision is not None and if_revision != present):
            return PutOutcome(written=False, revision=present, added=False)
        space = self._spaces.setdefault(namespace, _Namespace())
        old = space.rows.get(key)
        growth = len(value) - len(old.value) if old is not None else len(key) + len(value)
        if growth > 0 and space.bytes_used + growth > self._quota_bytes:
            if not space.keys:
                del self._spaces[namespace]
            return Refusal(
                effects.QUOTA,
                f"namespace {namespace!r} holds {space.bytes_used} bytes and may hold"
                f" {self._quota_bytes}: delete keys first",
            )
        if old is None and self._rows >= limits.KV_ROWS_MAX:
            if not space.keys:
                del self._spaces[namespace]
            return Refusal(
                effects.TABLE_FULL,
                f"the store holds {self._rows} keys, its limit: delete some first",
            )
        self._revision += 1
        row = KvRow(value, self._revision, at.wall_ms + ttl_ms if ttl_ms > 0 else 0)
        if old is None:
            insort(space.keys, key)
            self._rows += 1
        space.rows[key] = row
        space.bytes_used += growth
        self._note_expiry(namespace, key, row)
        self.writes.append(Write(tables.KV, _row_key(namespace, key), _encode_row(row)))
        return PutOutcome(written=True, revision=row.revision, added=current is None)

    def get(self, namespace: str, key: bytes, at: Moment) -> KvRow | None:
        """The stored value that has not expired."""
        return self._live(namespace, key, at)

    def delete(self, namespace: str, key: bytes, *, prefix: bool, at: Moment) -> int:
        """Removes a key, or all keys that begin with it; how many there were."""
        doomed = self._range(namespace, key) if prefix else [key]
        deleted = 0
        for name in doomed:
            if self._live(namespace, name, at) is not None:
                self._remove(namespace, name)
                deleted += 1
        return deleted

    def keys(
        self, namespace: str, prefix: bytes, limit: int, at: Moment
    ) -> tuple[list[bytes], bool]:
        """Keys in order, and whether there are more."""
        limit = min(limit or limits.KV_KEYS_LISTED_MAX, limits.KV_KEYS_LISTED_MAX)
        found: list[bytes] = []
        for key in self._range(namespace, prefix):
            if self._live(namespace, key, at) is None:
                continue
            if len(found) == limit:
                return found, True
            found.append(key)
        return found, False

    def take_writes(self) -> list[Write]:
        """What became different since the last call, in order."""
        writes, self.writes = self.writes, []
        return writes

    def _range(self, namespace: str, prefix: bytes) -> list[bytes]:
        space = self._spaces.get(namespace)
        if space is None:
            return []
        first = bisect_left(space.keys, prefix)
        last = first
        while last < len(space.keys) and space.keys[last].startswith(prefix):
            last += 1
        return space.keys[first:last]

    def _note_expiry(self, namespace: str, key: bytes, row: KvRow) -> None:
        if row.expires_wall_ms:
            heapq.heappush(self._expiries, (row.expires_wall_ms, namespace, key))
            if len(self._expiries) > limits.DEADLINES_SHARE * max(self._rows, _FEW_ROWS):
                # A key put again and again left a moment each time, perhaps years from now.
                self._expiries = [
                    (each.expires_wall_ms, name, known)
                    for name, space in self._spaces.items()
                    for known, each in space.rows.items()
                    if each.expires_wall_ms
                ]
                heapq.heapify(self._expiries)

    def _purge(self, at: Moment) -> None:
        """Removes what nobody asks for any more; a bounded share of it at each put."""
        for _ in range(limits.KV_PURGED_PER_PUT_MAX):
            if not self._expiries or self._expiries[0][0] > at.wall_ms:
                return
            _, namespace, key = heapq.heappop(self._expiries)
            self._live(namespace, key, at)

    def _live(self, namespace: str, key: bytes, at: Moment) -> KvRow | None:
        space = self._spaces.get(namespace)
        row = space.rows.get(key) if space is not None else None
        if row is not None and row.expires_wall_ms and row.expires_wall_ms <= at.wall_ms:
            self._remove(namespace, key)
            return None
        return row

    def _remove(self, namespace: str, key: bytes) -> None:
        space = self._spaces[namespace]
        row = space.rows.pop(key)
        del space.keys[bisect_left(space.keys, key)]
        self._rows -= 1
        space.bytes_used -= len(key) + len(row.value)
        assert space.bytes_used >= 0, f"namespace {namespace!r}: {space.bytes_used} bytes"
        self.writes.append(Write(tables.KV, _row_key(namespace, key), None))
        if not space.keys:
            del self._spaces[namespace]


def _check_sizes(namespace: str, key: bytes, value: bytes) -> Refusal | None:
    if not key or len(key) > limits.KV_KEY_BYTES_MAX:
        return Refusal(
            effects.TOO_LARGE if key else effects.BAD_REQUEST,
            f"a key of {len(key)} bytes: 1 .. {limits.KV_KEY_BYTES_MAX} are allowed",
        )
    if len(value) > limits.KV_VALUE_BYTES_MAX:
        return Refusal(
            effects.TOO_LARGE,
            f"key {key!r}: a value of {len(value)} bytes is above {limits.KV_VALUE_BYTES_MAX}",
        )
    if len(namespace.encode()) > limits.KV_KEY_BYTES_MAX:
        return Refusal(effects.TOO_LARGE, f"a namespace above {limits.KV_KEY_BYTES_MAX} bytes")
    return None


def _row_key(namespace: str, key: bytes) -> bytes:
    space = namespace.encode()
    return len(space).to_bytes(4, "big") + space + key


def shown_row(row_key: bytes, blob: bytes) -> dict[str, str | int]:
    """A stored row for people.

    Raises:
        ValueError: it is none.
    """
    row, (namespace, key) = _decode_row(blob), _split(row_key)
    parts = {"namespace": namespace, "key": repr(key)[1:], "value": repr(row.value)[1:]}
    return parts | {"revision": row.revision, "expires_wall_ms": row.expires_wall_ms}


def _split(row_key: bytes) -> tuple[str, bytes]:
    size = int.from_bytes(row_key[:4], "big")
    return row_key[4 : 4 + size].decode(), row_key[4 + size :]
