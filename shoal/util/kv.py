"""The cluster's key-value store (CONTRACT: KV). Acknowledged means durable."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cluster_api.v1 import gcs_pb2 as gcs
from driver_client import cluster_view


@dataclass(frozen=True, slots=True)
class PutResult:
    """`written`: this caller's value is the stored one now. `revision`: of the stored value."""

    written: bool
    revision: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def _bytes(value: str | bytes, what: str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"{what} must be bytes or a text, not {type(value).__name__}")


def put(
    key: str | bytes,
    value: str | bytes,
    *,
    namespace: str = "",
    if_absent: bool = False,
    if_revision: int | None = None,
    ttl_s: float | None = None,
) -> PutResult:
    """Stores a value; with a condition only if it holds.

    Raises:
        ValueError: too large, or both conditions at once.
    """
    if if_absent and if_revision is not None:
        raise ValueError("give if_absent or if_revision, not both")
    request = gcs.KvPutRequest(
        namespace=namespace,
        key=_bytes(key, "key"),
        value=_bytes(value, "value"),
        if_absent=if_absent,
        has_if_revision=if_revision is not None,
        if_revision=if_revision or 0,
        ttl_ms=int(ttl_s * 1000) if ttl_s else 0,
    )
    answer = cluster_view.gcs_call(lambda link: link.kv.Put, request)
    return PutResult(answer.written, answer.revision)


def get_with_revision(key: str | bytes, *, namespace: str = "") -> tuple[bytes | None, int]:
    """(value, revision); (None, 0) if there is none."""
    request = gcs.KvGetRequest(namespace=namespace, key=_bytes(key, "key"))
    answer = cluster_view.gcs_call(lambda link: link.kv.Get, request)
    return (answer.value, answer.revision) if answer.found else (None, 0)


def get(key: str | bytes, *, namespace: str = "") -> bytes | None:
    """The value, None if there is none."""
    return get_with_revision(key, namespace=namespace)[0]


def multi_get(keys: list[str | bytes], *, namespace: str = "") -> dict[bytes, bytes]:
    """The values that exist."""
    request = gcs.KvMultiGetRequest(namespace=namespace, keys=[_bytes(key, "key") for key in keys])
    answer = cluster_view.gcs_call(lambda link: link.kv.MultiGet, request)
    return {entry.key: entry.value for entry in answer.entries}


def delete(key: str | bytes, *, namespace: str = "", prefix: bool = False) -> int:
    """Deletes a key, or all that begin with it; how many."""
    request = gcs.KvDeleteRequest(namespace=namespace, key=_bytes(key, "key"), prefix=prefix)
    return cluster_view.gcs_call(lambda link: link.kv.Delete, request).deleted


def keys(prefix: str | bytes = b"", *, namespace: str = "") -> list[bytes]:
    """Keys that begin with `prefix`, sorted."""
    request = gcs.KvKeysRequest(namespace=namespace, prefix=_bytes(prefix, "prefix"))
    return list(cluster_view.gcs_call(lambda link: link.kv.Keys, request).keys)


def exists(key: str | bytes, *, namespace: str = "") -> bool:
    """Whether the key is there."""
    request = gcs.KvExistsRequest(namespace=namespace, key=_bytes(key, "key"))
    return cluster_view.gcs_call(lambda link: link.kv.Exists, request).exists
