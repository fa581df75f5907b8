"""Settings of the control service: one frozen record, checked before anything starts."""

from __future__ import annotations

import msgspec

from gcs_service import limits

STORAGES = ("sqlite", "memory", "redis")
SYNC_SCOPES = ("schedulers", "all")
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
PORT_MAX = 65_535
PING_INTERVAL_S_MIN = 0.06
PING_INTERVAL_S_MAX = 3_600.0


class GcsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the composition root needs. Validated by `check`.

    Attributes:
        port: 0 picks a free one.
        storage_path: folder of the SQLite file, made when missing; or the URL of a Redis database.
        history_rows: finished jobs, and dead actors, kept for lists; 0: the limits' own numbers.
        kv_quota_bytes: what one namespace of the key-value store may hold, keys and values.
        port_file: written with `host:port` when the service answers.
        die_with_parent_fd: the process ends when this descriptor reaches its end; -1 none.
        sync_scope: who receives views of other nodes.
        ping_interval: silence on a node's stream after which it is pinged, seconds; a node that
            hangs is declared dead after two of these and a sixth.
        node_settings: handed to every agent in its welcome, by `--set name=value`.
    """

    host: str = "127.0.0.1"
    port: int = 0
    storage: str = "sqlite"
    storage_path: str = ""
    history_rows: int = 0
    kv_quota_bytes: int = limits.KV_NAMESPACE_BYTES_MAX
    wipe: bool = False
    port_file: str = ""
    session_name: str = ""
    die_with_parent_fd: int = -1
    log_level: str = "INFO"
    sync_scope: str = "schedulers"
    ping_interval: float = limits.PING_INTERVAL_MS / 1_000
    node_settings: dict[str, str] = {}

    def check(self) -> None:
        """Raises ValueError naming the wrong setting and what is allowed."""
        if not 0 <= self.port <= PORT_MAX:
            raise ValueError(f"port {self.port} is not in 0 .. {PORT_MAX}")
        if self.storage not in STORAGES:
            raise ValueError(f"storage {self.storage!r} is not one of {', '.join(STORAGES)}")
        if self.storage == "sqlite" and not self.storage_path:
            raise ValueError("storage sqlite needs --storage-path, a folder for its file")
        if self.storage == "redis" and not self.storage_path.startswith(REDIS_SCHEMES):
            raise ValueError(
                "storage redis needs --storage-path redis://[user:password@]host:port/database,"
                " or rediss:// or unix://"
            )
        if self.history_rows < 0:
            raise ValueError(f"history of {self.history_rows} rows: 0 or more")
        if self.kv_quota_bytes < 1:
            raise ValueError(f"kv quota of {self.kv_quota_bytes} bytes: at least 1 is needed")
        if self.sync_scope not in SYNC_SCOPES:
            raise ValueError(
                f"sync scope {self.sync_scope!r} is not one of {', '.join(SYNC_SCOPES)}"
            )
        if not PING_INTERVAL_S_MIN <= self.ping_interval <= PING_INTERVAL_S_MAX:
            raise ValueError(
                f"ping interval {self.ping_interval:g} s is not in"
                f" {PING_INTERVAL_S_MIN:g} .. {PING_INTERVAL_S_MAX:g}"
            )
        if not self.host:
            raise ValueError("host is empty; 127.0.0.1 serves this machine only")


def parse_assignments(items: tuple[str, ...]) -> dict[str, str]:
    """`name=value` settings for the agents.

    Raises:
        ValueError: an item without `=`, or with an empty name.
    """
    result: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ValueError(f"setting {item!r} is not of the form name=value")
        result[name] = value
    return result
