"""What the peer service asks of its process: actors owned here, output to print, table sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import types_pb2 as t
from driver_client.shell.peer_stream import PeerStream

if TYPE_CHECKING:
    from driver_client.shell.runtime import Runtime


class RuntimeHooks:
    """ProcessHooks of a runtime. I/O thread only."""

    def __init__(self, runtime: Runtime, print_logs: Callable[[pb.LogLines], None]) -> None:
        self._runtime = runtime
        self._print_logs = print_logs
        self.cluster_id = runtime.facts.cluster_id
        self.owner_id = runtime.facts.owner_id

    def greeted(self, hello: pb.PeerHello) -> None:
        """What this process submits is found along the module path of who sent it."""
        facts = self._runtime.facts
        if not facts.is_driver and hello.sys_path:
            facts.sys_path = tuple(hello.sys_path)
        if not facts.is_driver and facts.job_id in (b"", hello.job_id):
            facts.detached_by_default = hello.detached_by_default

    def cancel_owned(self, frame: pb.PeerFrame) -> None:
        """A borrower asks to cancel calls that this process owns."""
        self._runtime.cancel_owned(frame)

    def watch_actor(self, actor_id: bytes, stream: PeerStream) -> None:
        """Sends the actor's records to the stream; an unknown one is dead."""
        host = self._runtime.host_if_any
        if host is not None and host.watch(actor_id, stream.actor_changed):
            return
        death = t.ActorDeath(
            cause=t.ACTOR_DEATH_CAUSE_OUT_OF_SCOPE,
            message="its owner does not know it any more",
            owner_id=self.owner_id,
        )
        stream.actor_changed(
            t.ActorRecord(
                actor_id=actor_id, state=t.ACTOR_STATE_DEAD, death=death, incarnation=1 << 30
            )
        )

    def unwatch_actor(self, actor_id: bytes, stream: PeerStream) -> None:
        """Ends `watch_actor`."""
        host = self._runtime.host_if_any
        if host is not None:
            host.unwatch(actor_id, stream.actor_changed)

    async def kill_actor(self, actor_id: bytes, *, no_restart: bool, reason: str) -> bool:
        """Kills an owned actor; when this returns, its name is free."""
        host = self._runtime.host_if_any
        if host is None:
            return False
        return await host.kill(actor_id, no_restart=no_restart, reason=reason)

    def print_logs(self, lines: pb.LogLines) -> None:
        """Output of workers."""
        self._print_logs(lines)

    def state_counts(self) -> dict[str, int]:
        """Sizes of the tables."""
        return self._runtime.counts()
