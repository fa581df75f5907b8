"""What the core asks of the shell, in order: what follows a write waits until it is durable."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service.core.tables import Write


class Tell(msgspec.Struct, frozen=True, gc=False):
    """Queue an item for one open session; a later item with the same key may replace it unsent."""

    session: int
    item: Any
    key: Hashable = None


class CloseSession(msgspec.Struct, frozen=True, gc=False):
    """End a session after what was queued for it has been sent."""

    session: int


class LeaveSession(msgspec.Struct, frozen=True, gc=False):
    """A node's part in a session ends; the session too, once sent, when it carries no other.

    `incarnation`: of the registration that ends. One that came later over the same stream stays.
    """

    session: int
    node_id: bytes
    incarnation: int


class NodeSessionOpened(msgspec.Struct, frozen=True, gc=False):
    """A welcomed node joins the fan-out. `last_revision`: newest change it has seen."""

    session: int
    record: t.NodeRecord
    snapshot: ns.ResourceSnapshot
    last_revision: int


class NodeChanged(msgspec.Struct, frozen=True, gc=False):
    """A node joined, resumed, began to drain or died: tell watchers and agents."""

    record: t.NodeRecord
    scheduler_address: str


class OwnersEnded(msgspec.Struct, frozen=True, gc=False):
    """Tell every agent once: what these owners leased ends."""

    owner_ids: tuple[bytes, ...]


class ProbeNode(msgspec.Struct, frozen=True, gc=False):
    """Dial the agent's port and report: a refused connection means that its process is gone."""

    node_id: bytes
    address: str
    session: int


class ConfirmSilence(msgspec.Struct, frozen=True, gc=False):
    """Pass once through the I/O loop, behind everything already received, and come back."""

    node_id: bytes
    session: int


class SilenceEvidence(msgspec.Struct, frozen=True, gc=False):
    """What the way through the I/O loop found: how long it took, and the last dial of the port."""

    loop_lag_ms: int
    port_answers: bool


class DrainSettled(msgspec.Struct, frozen=True, gc=False):
    """The agent answered a drain: whoever asked for it may be told."""

    node_id: bytes
    accepted: bool
    message: str


class ForgetPackages(msgspec.Struct, frozen=True, gc=False):
    """A job or a detached actor ended: the directory rows with this prefix go with it."""

    prefix: bytes


class ProbeDriver(msgspec.Struct, frozen=True, gc=False):
    """Dial the driver itself.

    `silence_counts`: its home lost it or died, so only an answer saves it. `must_speak`: an open
    port is no answer; its process must say something, at the latest after a while.
    """

    job_id: bytes
    address: str
    silence_counts: bool = True
    must_speak: bool = False


Effect = (
    Write
    | Tell
    | CloseSession
    | LeaveSession
    | NodeSessionOpened
    | NodeChanged
    | OwnersEnded
    | ProbeNode
    | ConfirmSilence
    | DrainSettled
    | ForgetPackages
    | ProbeDriver
)


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """A request that cannot be done. `code` is a token of `REFUSAL_CODES`."""

    code: str
    message: str


NOT_FOUND = "not_found"
BAD_REQUEST = "bad_request"
OWNER_DEAD = "owner_dead"
TABLE_FULL = "table_full"
QUOTA = "quota"
TOO_LARGE = "too_large"
OTHER_CLUSTER = "other_cluster"
READ_ONLY = "read_only"

REFUSAL_CODES = (
    NOT_FOUND,
    BAD_REQUEST,
    OWNER_DEAD,
    TABLE_FULL,
    QUOTA,
    TOO_LARGE,
    OTHER_CLUSTER,
    READ_ONLY,
)
