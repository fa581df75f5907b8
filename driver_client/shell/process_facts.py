"""Who this process is in the cluster.

Written at connection; a worker's job facts change with its lease.
"""

from __future__ import annotations

import msgspec


class ProcessFacts(msgspec.Struct):
    """Identity and addresses of a driver or worker."""

    owner_id: bytes
    cluster_id: bytes
    gcs_address: str
    agent_address: str
    own_address: str
    node_id: bytes
    session_name: str
    is_driver: bool
    job_id: bytes = b""
    namespace: str = ""
    namespace_is_anonymous: bool = False
    detached_by_default: bool = False
    """Of the job: actors whose options say nothing about their lifetime."""
    driver_address: str = ""
    log_to_driver: bool = True
    node_name: str = ""
    temp_dir: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    sys_path: tuple[str, ...] = ()
    runtime_env_json: str = ""
    resources: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    devices: dict[str, list[int]] = msgspec.field(default_factory=dict[str, list[int]])
    lease_id: bytes = b""
    actor_id: bytes = b""
    actor_name: str = ""
    actor_handle: bytes = b""
    actor_incarnation: int = 0
    placement_group_id: bytes = b""
