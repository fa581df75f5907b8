"""What the agent knows about itself and its cluster."""

from __future__ import annotations

import msgspec


class NodeFacts(msgspec.Struct):
    """Identity and role; the fields from `cluster_id` on come from the GCS."""

    node_id: bytes
    address: str
    node_name: str
    hostname: str
    labels: dict[str, str]
    is_head: bool
    is_scheduler: bool
    gcs_address: str
    pid: int
    start_time_ms: int
    """Wall clock, milliseconds since the epoch."""
    session_name: str = ""
    cluster_id: bytes = b""
    scheduler_address: str = ""
    epoch: int = 0
    draining: bool = False
    drain_deadline_ms: int = 0
    """Wall clock."""
    wall_offset_ms: int = 0
    """Wall clock minus the monotonic time of events."""
