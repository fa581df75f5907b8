"""What the core wants done. The shell carries effects out in order."""

from __future__ import annotations

import msgspec

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t


class SendToOwner(msgspec.Struct, frozen=True, gc=False):
    """One item on the owner's session; dropped when it has none (it asks again on reopening)."""

    owner_id: bytes
    item: a.LeaseItem
    key: str | None = None


class SendToWorker(msgspec.Struct, frozen=True, gc=False):
    """One command on the worker's link."""

    worker_id: bytes
    command: a.WorkerCommand


class SendToGcs(msgspec.Struct, frozen=True, gc=False):
    """One item on the node session; the shell adds the node id."""

    item: n.AgentItem


class ReportSnapshot(msgspec.Struct, frozen=True, gc=False):
    """Resources changed; the message is built when it is sent, so the newest state goes."""


class ReportDemand(msgspec.Struct, frozen=True, gc=False):
    """The waiting requests changed."""


class SpawnWorker(msgspec.Struct, frozen=True, gc=False):
    """Fork a worker of this runtime environment (its key; "" none), which is ready."""

    worker_id: bytes
    environment: str = ""


class PrepareEnvironment(msgspec.Struct, frozen=True, gc=False):
    """Make a runtime environment; answered by `environment_made` or `environment_failed`.

    `job_id` and `actor_id` (of a detached actor, else empty) say whose rows name its packages.
    """

    environment: str
    timeout_s: float
    job_id: bytes
    actor_id: bytes


class ReleaseEnvironment(msgspec.Struct, frozen=True, gc=False):
    """Nobody uses a ready environment any more: it may go when its room is needed."""

    environment: str


class JobEnded(msgspec.Struct, frozen=True, gc=False):
    """A driver at home here is gone: what was kept for its job may go."""

    job_id: bytes


class KillWorker(msgspec.Struct, frozen=True, gc=False):
    """SIGKILL the worker's process group; the end is reported by the fork server."""

    worker_id: bytes


class LabelOutput(msgspec.Struct, frozen=True, gc=False):
    """From now on the worker's output is of this job and goes to this driver ("": nobody)."""

    worker_id: bytes
    job_id: bytes
    name: str
    driver_address: str


class ProbeOwner(msgspec.Struct, frozen=True, gc=False):
    """Look whether somebody still listens at the owner's address."""

    owner_id: bytes
    address: str


class EndAgent(msgspec.Struct, frozen=True, gc=False):
    """The node drained: say goodbye with this cause and end the process."""

    cause: t.NodeDeathCause.ValueType
    message: str


Effect = (
    SendToOwner
    | SendToWorker
    | SendToGcs
    | ReportSnapshot
    | ReportDemand
    | SpawnWorker
    | PrepareEnvironment
    | ReleaseEnvironment
    | JobEnded
    | KillWorker
    | LabelOutput
    | ProbeOwner
    | EndAgent
)
