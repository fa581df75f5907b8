"""Names of the durable tables. A row is a key and bytes; a batch becomes durable as a whole."""

from __future__ import annotations

import msgspec

CLUSTER = "cluster"
JOB = "job"
NODE = "node"
ACTOR = "actor"
ACTOR_SPEC = "actor_spec"
PLACEMENT_GROUP = "placement_group"
KV = "kv"
DRAIN = "drain"
AUTOSCALER = "autoscaler"
OWNER = "owner"
"""Owners that ended, by id: when."""

CLUSTER_ID = b"cluster_id"
EPOCH = b"epoch"
SESSION_NAME = b"session_name"
LAST_JOB = b"last_job"
"""Keys of the table `cluster`."""

CONSTRAINT = b"constraint"
CLUSTER_CONFIG = b"cluster_config"
"""Keys of the table `autoscaler`."""

ALL_TABLES = (
    CLUSTER,
    JOB,
    NODE,
    ACTOR,
    ACTOR_SPEC,
    PLACEMENT_GROUP,
    KV,
    DRAIN,
    AUTOSCALER,
    OWNER,
)


class Write(msgspec.Struct, frozen=True, gc=False):
    """One row to write; `value` None removes it."""

    table: str
    key: bytes
    value: bytes | None
