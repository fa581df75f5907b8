"""Reads the store at start: who the cluster is, which life this is, and all tables."""

from __future__ import annotations

import secrets

from cluster_common import ids
from gcs_service.core import tables
from gcs_service.core.cluster_identity import ClusterIdentity
from gcs_service.core.tables import Write
from gcs_service.settings import GcsSettings
from gcs_service.shell import clock
from gcs_service.shell.storage.memory_storage import MemoryStorage
from gcs_service.shell.storage.protocol import Storage
from gcs_service.shell.storage.redis_storage import RedisStorage
from gcs_service.shell.storage.sqlite_storage import SqliteStorage


def open_storage(settings: GcsSettings) -> Storage:
    """The back end that the settings name, wiped if they say so.

    Raises:
        StorageError: it cannot be opened.
    """
    storage = _open(settings.storage, settings.storage_path)
    if settings.wipe:
        storage.wipe()
    return storage


def _open(kind: str, place: str) -> Storage:
    match kind:
        case "memory":
            return MemoryStorage()
        case "redis":
            return RedisStorage(place)
        case _:
            return SqliteStorage(place)


def begin_epoch(storage: Storage, settings: GcsSettings) -> ClusterIdentity:
    """Makes the cluster's id in its first life, counts this life, both durably."""
    known = dict(storage.load(tables.CLUSTER))
    cluster_id = known.get(tables.CLUSTER_ID) or secrets.token_bytes(ids.CLUSTER_ID_BYTES)
    epoch = int.from_bytes(known.get(tables.EPOCH, b"\0"), "big") + 1
    started = clock.now()
    default_name = f"session-{started.wall_ms}-{cluster_id.hex()[:8]}"
    kept_name = known.get(tables.SESSION_NAME, b"").decode()
    session_name = settings.session_name or kept_name or default_name
    storage.commit(
        [
            Write(tables.CLUSTER, tables.CLUSTER_ID, cluster_id),
            Write(tables.CLUSTER, tables.EPOCH, epoch.to_bytes(8, "big")),
            Write(tables.CLUSTER, tables.SESSION_NAME, session_name.encode()),
        ]
    )
    return ClusterIdentity(
        cluster_id=cluster_id,
        epoch=epoch,
        session_name=session_name,
        start_wall_ms=started.wall_ms,
        node_settings={"sync_scope": settings.sync_scope} | settings.node_settings,
    )
