"""The cluster's key-value store (CONTRACT: KV). Acknowledged means durable."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cluster_api.v1 import gcs_pb2 as gcs
from cluster_common.limits import GRPC_MESSAGE_BYTES_MAX
from driver_client import cluster_view, exceptions

MESSAGE_BYTES_MAX = GRPC_MESSAGE_BYTES_MAX // 8
"""What is above this would be refused anyway, and is not sent; the store's own limits are lower."""
SHOWN_KEY_BYTES = 64

_REFUSALS: dict[str, type[exceptions.KvError]] = {
    "OUT_OF_RANGE": exceptions.KvTooLargeError,
    "RESOURCE_EXHAUSTED": exceptions.KvQuotaError,
}


@dataclass(frozen=True, slots=True)
class PutResult:
    """`written`: this caller's value is the stored one now. `revision`: of the stored value."""

    written: bool
    revision: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def as_bytes(value: str | bytes, what: str) -> bytes:
    """A key or value for the wire; text as UTF-8.

    Raises:
        TypeError: neither bytes nor text.
    """
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

    Args:
        key: what it is found by, 1 .. 4,096 bytes; text as UTF-8.
        value: up to 64 MiB.
        namespace: keys of different ones have nothing to do with each other.
        if_absent: only if the key has no value.
        if_revision: only if the stored value has this revision (0: there is none).
        ttl_s: the value is gone after so many seconds.

    Raises:
        KvTooLargeError: key or value; nothing was stored, nor in the two cases below.
        KvQuotaError: the namespace is full; others are not concerned.
        ValueError: both conditions at once, an empty key, or a time to live that is not positive.
    """
    if ttl_s is not None and ttl_s <= 0:
        raise ValueError(f"ttl_s is {ttl_s:g}: a positive number of seconds, or None")
    if if_absent and if_revision is not None:
        raise ValueError("give if_absent or if_revision, not both")
    request = gcs.KvPutRequest(
        namespace=namespace,
        key=as_bytes(key, "key"),
        value=as_bytes(value, "value"),
        if_absent=if_absent,
        has_if_revision=if_revision is not None,
        if_revision=if_revision or 0,
        ttl_ms=max(1, round(ttl_s * 1_000)) if ttl_s else 0,
    )
    answer = send_put(request)
    return PutResult(answer.written, answer.revision)


def send_put(request: gcs.KvPutRequest) -> gcs.KvPutResponse:
    """One put.

    Raises:
        KvTooLargeError, KvQuotaError: what `put` says.
    """
    if request.ByteSize() > MESSAGE_BYTES_MAX:
        raise exceptions.KvTooLargeError(
            f"key {request.key[:SHOWN_KEY_BYTES]!r}: a value of {len(request.value)} bytes"
        )
    try:
        return cluster_view.gcs_call(lambda link: link.kv.Put, request)
    except exceptions.RpcError as error:
        refusal = _REFUSALS.get(error.code)
        if refusal is None:
            raise
        raise refusal(str(error), error.code) from None


def get_with_revision(key: str | bytes, *, namespace: str = "") -> tuple[bytes | None, int]:
    """(value, revision); (None, 0) if there is none."""
    request = gcs.KvGetRequest(namespace=namespace, key=as_bytes(key, "key"))
    answer = cluster_view.gcs_call(lambda link: link.kv.Get, request)
    return (answer.value, answer.revision) if answer.found else (None, 0)


def get(key: str | bytes, *, namespace: str = "") -> bytes | None:
    """The value, None if there is none."""
    return get_with_revision(key, namespace=namespace)[0]


def multi_get(keys: list[str | bytes], *, namespace: str = "") -> dict[bytes, bytes]:
    """The values that exist."""
    request = gcs.KvMultiGetRequest(
        namespace=namespace, keys=[as_bytes(key, "key") for key in keys]
    )
    answer = cluster_view.gcs_call(lambda link: link.kv.MultiGet, request)
    return {entry.key: entry.value for entry in answer.entries}


def delete(key: str | bytes, *, namespace: str = "", prefix: bool = False) -> int:
    """Deletes a key, or all that begin with it; how many."""
    request = gcs.KvDeleteRequest(namespace=namespace, key=as_bytes(key, "key"), prefix=prefix)
    return cluster_view.gcs_call(lambda link: link.kv.Delete, request).deleted


def keys(prefix: str | bytes = b"", *, namespace: str = "") -> list[bytes]:
    """Keys that begin with `prefix`, sorted."""
    request = gcs.KvKeysRequest(namespace=namespace, prefix=as_bytes(prefix, "prefix"))
    return list(cluster_view.gcs_call(lambda link: link.kv.Keys, request).keys)


def exists(key: str | bytes, *, namespace: str = "") -> bool:
    """Whether the key is there."""
    request = gcs.KvExistsRequest(namespace=namespace, key=as_bytes(key, "key"))
    return cluster_view.gcs_call(lambda link: link.kv.Exists, request).exists
