"""States of actors that somebody else hosts: asked from the owner; if detached, the GCS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from grpc import aio

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import gcs_pb2 as gcs
from cluster_api.v1 import types_pb2 as t
from cluster_common import ids
from driver_client import limits
from driver_client.shell.actor_client import ActorClient
from driver_client.shell.gcs_link import GcsLink
from driver_client.shell.io_thread import IoThread
from driver_client.shell.ownership import Ownership


class ActorWatches:
    """Feeds the records to the actors' clients. I/O thread only."""

    def __init__(
        self,
        io: IoThread,
        ownership: Ownership,
        gcs_link: Callable[[], GcsLink],
        clients: dict[bytes, ActorClient],
    ) -> None:
        self._io = io
        self._ownership = ownership
        self._gcs_link = gcs_link
        self._clients = clients
        self._owner_of: dict[bytes, str] = {}
        self._versions: dict[bytes, tuple[int, int]] = {}
        self._detached: dict[bytes, None] = {}
        self._unsent: list[bytes] = []
        self._wake = asyncio.Event()
        self._running = False
        ownership.actor_states = self._frame
        ownership.owner_lost = self._owner_lost

    def watch(self, actor_id: bytes, owner_address: str) -> None:
        """Starts the watch; an empty address means the GCS hosts the actor."""
        if owner_address:
            self._owner_of[actor_id] = owner_address
            stream = self._ownership.owner(owner_address, ids.owner_of(actor_id))
            stream.control().watch_actor_ids.append(actor_id)
            return
        self._detached[actor_id] = None
        self._unsent.append(actor_id)
        self._wake.set()
        if not self._running:
            self._running = True
            self._io.keeper.start(self._run(), "actor watch")

    def _frame(self, frame: pb.PeerReplyFrame) -> None:
        for record in frame.actor_states:
            self.take(record)

    def take(self, record: t.ActorRecord) -> None:
        """A record from the actor's host; older ones than the newest are void."""
        actor_id = record.actor_id
        client = self._clients.get(actor_id)
        if client is None:
            self._owner_of.pop(actor_id, None)
            self._detached.pop(actor_id, None)
            return
        version = (record.incarnation, record.version)
        if version < self._versions.get(actor_id, (0, 0)):
            return
        self._versions[actor_id] = version
        if record.state == t.ACTOR_STATE_ALIVE:
            client.alive(record.worker_address, record.worker_id, record.incarnation)
        elif record.state == t.ACTOR_STATE_RESTARTING:
            client.restarting()
        elif record.state == t.ACTOR_STATE_DEAD:
            client.died(record.death)
            self._versions.pop(actor_id, None)
            self._owner_of.pop(actor_id, None)
            self._detached.pop(actor_id, None)

    def _owner_lost(self, address: str) -> None:
        """Without its owner an ordinary actor is over: its agent ends it."""
        for actor_id in [a for a, owner in self._owner_of.items() if owner == address]:
            del self._owner_of[actor_id]
            client = self._clients.get(actor_id)
            if client is not None:
                client.died(
                    t.ActorDeath(
                        cause=t.ACTOR_DEATH_CAUSE_OWNER_DIED,
                        message=f"its owner at {address} is gone",
                        owner_id=ids.owner_of(actor_id),
                    )
                )

    # ---- detached actors: one stream to the GCS

    async def _run(self) -> None:
        delay = limits.RECONNECT_DELAY_MIN_S
        while not self._gcs_link().refusal:
            if await self._connect_once():
                delay = limits.RECONNECT_DELAY_MIN_S
            await asyncio.sleep(delay)
            delay = min(delay * 2, limits.RECONNECT_DELAY_MAX_S)
        self._running = False
        for actor_id in list(self._detached):
            client = self._clients.get(actor_id)
            if client is not None:
                message = self._gcs_link().refusal
                client.died(t.ActorDeath(cause=t.ACTOR_DEATH_CAUSE_NODE_DIED, message=message))
        self._detached.clear()

    async def _connect_once(self) -> bool:
        seen = False
        writer: asyncio.Task[None] | None = None
        try:
            stream: Any = self._gcs_link().actors.WatchActors(wait_for_ready=True)
            self._unsent = list(self._detached)
            writer = self._io.keeper.start(self._write(stream), "actor watch writer")
            while True:
                answer = await stream.read()
                if answer is aio.EOF:
                    return seen
                seen = True
                for record in answer.actors:
                    self.take(record)
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            self._gcs_link().heed(error)
            return seen
        finally:
            if writer is not None:
                writer.cancel()
                await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, stream: Any) -> None:
        try:
            while True:
                if not self._unsent:
                    self._wake.clear()
                    await self._wake.wait()
                batch, self._unsent = self._unsent, []
                await stream.write(gcs.WatchActorsRequest(actor_ids=batch))
        except (grpc.RpcError, asyncio.InvalidStateError):
            stream.cancel()  # the reader sees it and reconnects
