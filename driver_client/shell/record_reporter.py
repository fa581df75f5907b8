"""Owners' actor records for the GCS: coalesced, one call in flight, never waited for by a caller.

They serve lists and names only; the owner is the actor's one brain (DESIGN section 10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import grpc

from cluster_api.v1 import gcs_pb2 as gcs
from cluster_api.v1 import gcs_pb2_grpc as rpc
from cluster_api.v1 import types_pb2 as t
from cluster_common.transport.logs import get_logger
from driver_client import limits
from driver_client.shell.io_thread import IoThread

if TYPE_CHECKING:
    from driver_client.shell.owned_actor import OwnedActor

log = get_logger()


class RecordReporter:
    """Actors whose newest record was not sent yet; it is made when it leaves. I/O thread only."""

    def __init__(
        self,
        io: IoThread,
        stub: rpc.ActorServiceAsyncStub,
        owner_id: bytes,
        may_begin: Callable[[], Awaitable[None]],
        is_final: Callable[[BaseException], bool] = lambda _error: False,
    ) -> None:
        self._io = io
        self._may_begin = may_begin
        self._is_final = is_final
        self._stub = stub
        self._owner_id = owner_id
        self._unsent: dict[bytes, OwnedActor] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._dying_names: set[bytes] = set()
        self._names_free = asyncio.Event()
        self._names_free.set()
        self._hurry = asyncio.Event()
        self._flushes = 0
        self._running = False
        self._closed = False

    def close(self) -> None:
        """Nothing is reported any more: the GCS hears that the owner ends."""
        self._closed = True
        self._unsent.clear()

    def changed(self, actor: OwnedActor) -> None:
        """The actor's newest record is to be sent."""
        if self._closed:
            return
        self._unsent[actor.spec.actor_id] = actor
        self._idle.clear()
        if actor.spec.name and actor.life.is_dead:
            self._dying_names.add(actor.spec.actor_id)
            self._names_free.clear()
            self._hurry.set()
        if not self._running:
            self._running = True
            self._io.keeper.start(self._send(), "actor records")

    async def names_free(self, timeout_s: float) -> None:
        """Waits until the names of actors that died here are free; for a bounded time."""
        try:
            await asyncio.wait_for(self._names_free.wait(), timeout_s)
        except TimeoutError:
            return

    async def flushed(self, timeout_s: float) -> bool:
        """Whether everything put so far was acknowledged within the time."""
        self._flushes += 1
        self._hurry.set()
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        finally:
            self._flushes -= 1
        return True

    def _acknowledged(self, batch: list[t.ActorRecord]) -> None:
        self._dying_names.difference_update(
            record.actor_id for record in batch if record.state == t.ACTOR_STATE_DEAD
        )
        if not self._dying_names:
            self._names_free.set()
        if not self._unsent:
            self._idle.set()

    async def _send(self) -> None:
        await self._may_begin()
        delay = limits.RECONNECT_DELAY_MIN_S
        while self._unsent:
            ids_now = list(self._unsent)[: limits.ACTOR_RECORDS_BATCH_MAX]
            actors = [self._unsent.pop(actor_id) for actor_id in ids_now]
            batch = [actor.record() for actor in actors]
            request = gcs.ReportActorsRequest(owner_id=self._owner_id, actors=batch)
            try:
                await self._stub.ReportActors(request, timeout=limits.GCS_CALL_TIMEOUT_S)
                delay = limits.RECONNECT_DELAY_MIN_S
                self._acknowledged(batch)
            except grpc.RpcError as error:
                if self._is_final(error):  # the cluster is gone: nobody lists our actors
                    self.close()
                    self._acknowledged(batch)
                    break
                code = getattr(error, "code", lambda: None)()
                if code not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    log.warning("actor_records_refused", code=str(code), records=len(batch))
                    self._acknowledged(batch)
                    continue
                if self._closed:
                    break
                for actor in actors:
                    self._unsent.setdefault(actor.spec.actor_id, actor)
                await asyncio.sleep(delay)
                delay = min(delay * 2, limits.RECONNECT_DELAY_MAX_S)
            else:
                await self._pause()
        self._running = False

    async def _pause(self) -> None:
        """More may change meanwhile; whoever waits for the records is not kept waiting."""
        if self._flushes or self._dying_names:
            return
        self._hurry.clear()
        try:
            await asyncio.wait_for(self._hurry.wait(), limits.ACTOR_RECORDS_PAUSE_S)
        except TimeoutError:
            return
