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
    """Fork a worker with these extra environment variables."""

    worker_id: bytes
    env: dict[str, str]


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
    | KillWorker
    | LabelOutput
    | ProbeOwner
    | EndAgent
)
