"""What agent and fork server say to each other: one packet a message on a SOCK_SEQPACKET pair."""

from __future__ import annotations

import msgspec

from cluster_common.worker_start import WorkerStart
from raylet_agent.shell.build_orders import BuildRecipe


class Spawn(msgspec.Struct, frozen=True, tag="spawn"):
    """Fork a worker; the packet carries its standard output and error."""

    start: WorkerStart


class Build(msgspec.Struct, frozen=True, tag="build"):
    """Fork a builder; named, killed and reported like a worker, with the same two pipes."""

    worker_id: bytes
    recipe: BuildRecipe


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """SIGKILL the worker's process group."""

    worker_id: bytes


class Spawned(msgspec.Struct, frozen=True, tag="spawned"):
    """The process exists."""

    worker_id: bytes
    pid: int


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """The process is gone (or never was: pid 0). Status is negative for a signal."""

    worker_id: bytes
    pid: int
    status: int
    message: str = ""


Order = Spawn | Build | Kill
Report = Spawned | Exited

encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(Order).decode
decode_report = msgspec.msgpack.Decoder(Report).decode
PACKET_BYTES_MAX = 256 * 1024
