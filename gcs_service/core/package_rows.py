"""The directory of runtime packages in the key-value store: rows go with what they belong to."""

from __future__ import annotations

from collections.abc import Callable

from cluster_common import runtime_packages
from gcs_service.core.kv_table import KvTable
from gcs_service.core.moment import Moment


def forget(table: KvTable, prefix: bytes, at: Moment) -> None:
    """A job or a detached actor ended."""
    table.delete(runtime_packages.NAMESPACE, prefix, prefix=True, at=at)


def forget_left(table: KvTable, is_wanted: Callable[[bytes], bool], at: Moment) -> None:
    """What ended while the service was down, or just before it went.

    Args:
        table: the store.
        is_wanted: whether the job or actor with this prefix still lives.
        at: the moment.
    """
    keys, _ = table.keys(runtime_packages.NAMESPACE, b"", 0, at)
    prefixes = {key[: -runtime_packages.DIGEST_BYTES]: None for key in keys}
    for prefix in prefixes:
        if not is_wanted(prefix):
            forget(table, prefix, at)
