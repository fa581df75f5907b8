"""Ray's names for the cluster's key-value store, with Ray's return values.

`shoal.util.kv` is the same store with answers that say who won; new code should use that.
"""

from __future__ import annotations

from cluster_api.v1 import gcs_pb2 as gcs
from driver_client import process
from shoal.util import kv

__all__ = [
    "_internal_kv_del",
    "_internal_kv_exists",
    "_internal_kv_get",
    "_internal_kv_initialized",
    "_internal_kv_list",
    "_internal_kv_put",
]


def _internal_kv_initialized() -> bool:
    """Whether this process is connected to a cluster."""
    return process.is_initialized()


def _internal_kv_get(key: str | bytes, *, namespace: str | bytes | None = None) -> bytes | None:
    """The value, None if there is none."""
    return kv.get(key, namespace=_space(namespace))


def _internal_kv_exists(key: str | bytes, *, namespace: str | bytes | None = None) -> bool:
    """Whether the key is there."""
    return kv.exists(key, namespace=_space(namespace))


def _internal_kv_put(
    key: str | bytes,
    value: str | bytes,
    overwrite: bool = True,  # noqa: FBT001, FBT002 - Ray's signature
    *,
    namespace: str | bytes | None = None,
) -> bool:
    """Stores a value. True when the key was there already, overwritten or not: Ray's meaning.

    With `overwrite=False` the winner of a race is who gets False (`kv.put(…, if_absent=True)` says
    `written`).

    Raises:
        KvTooLargeError, KvQuotaError: nothing was stored.
    """
    request = gcs.KvPutRequest(
        namespace=_space(namespace),
        key=kv.as_bytes(key, "key"),
        value=kv.as_bytes(value, "value"),
        if_absent=not overwrite,
    )
    return not kv.send_put(request).added


def _internal_kv_del(
    key: str | bytes,
    *,
    del_by_prefix: bool = False,
    namespace: str | bytes | None = None,
) -> int:
    """Deletes a key, or all that begin with it; how many."""
    return kv.delete(key, prefix=del_by_prefix, namespace=_space(namespace))


def _internal_kv_list(prefix: str | bytes, *, namespace: str | bytes | None = None) -> list[bytes]:
    """Keys that begin with `prefix`."""
    return kv.keys(prefix, namespace=_space(namespace))


def _space(namespace: str | bytes | None) -> str:
    if isinstance(namespace, bytes):
        return namespace.decode()
    return namespace or ""
