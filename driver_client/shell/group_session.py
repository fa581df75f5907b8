"""The one stream on which this process creates and removes groups and asks whether they are ready.

A thousand serial `get(pg.ready())` cost about one round trip for all that are placed: creating
implies watching, so the answer is usually here before the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from grpc import aio

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import placement_groups_pb2_grpc as rpc
from cluster_common.transport.logs import get_logger
from cluster_common.transport.outbox import Outbox
from driver_client import limits
from driver_client.shell.io_thread import IoThread

log = get_logger()

Listener = Callable[[pg.PlacementGroupRecord], None]

_FINAL = (pg.PLACEMENT_GROUP_STATE_REMOVED, pg.PLACEMENT_GROUP_STATE_REMOVING)


class GroupSession:
    """Groups as this process knows them. I/O thread only, except `known`.

    Args:
        is_final: whether a stream ended since there is no point in opening another.
    """

    def __init__(
        self,
        io: IoThread,
        channel: aio.Channel,
        hello: pg.GroupHello,
        is_final: Callable[[BaseException], bool] = lambda _error: False,
    ) -> None:
        self._io = io
        self._is_final = is_final
        self._is_over = False
        self._channel = channel
        self._hello = hello
        self._records: dict[bytes, pg.PlacementGroupRecord] = {}
        self._refused: dict[bytes, pg.GroupRefusal] = {}
        self._unaccepted: dict[bytes, pg.PlacementGroupSpec] = {}
        self._unremoved: dict[bytes, None] = {}
        self._watched: dict[bytes, None] = {}
        self._changed: dict[bytes, list[asyncio.Future[None]]] = {}
        self._listeners: dict[bytes, list[Listener]] = {}
        self._outbox: Outbox[pg.GroupRequest] = Outbox(self._write)
        self._stream: Any = None
        io.keeper.start(self._run(), "group session")

    # ---- questions

    def known(self, group_id: bytes) -> pg.PlacementGroupRecord | None:
        """The newest record here."""
        return self._records.get(group_id)

    def refusal(self, group_id: bytes) -> pg.GroupRefusal | None:
        """Why the GCS did not take the group, if it did not."""
        return self._refused.get(group_id)

    def create(self, spec: pg.PlacementGroupSpec) -> None:
        """Sends a creation; it is repeated after a reconnect until it is durable."""
        group_id = spec.placement_group_id
        self._unaccepted[group_id] = spec
        self._watched[group_id] = None
        self._outbox.put(pg.GroupRequest(create=spec))
        self._unless_over()

    def remove(self, group_id: bytes) -> None:
        """Sends a removal, in order with the creations."""
        self._unremoved[group_id] = None
        self._outbox.put(pg.GroupRequest(remove=group_id))
        self._unless_over()

    def watch(self, group_id: bytes) -> None:
        """Makes sure that this group's changes come here."""
        if group_id not in self._watched:
            self._watched[group_id] = None
            self._outbox.put(pg.GroupRequest(watch=group_id))
            self._unless_over()

    def listen(self, group_id: bytes, listener: Listener) -> None:
        """Calls `listener` with each new record of the group, the present one included."""
        self._listeners.setdefault(group_id, []).append(listener)
        self.watch(group_id)
        record = self._records.get(group_id)
        if record is not None:
            listener(record)

    def unlisten(self, group_id: bytes, listener: Listener) -> None:
        """Ends `listen`."""
        listeners = self._listeners.get(group_id, [])
        if listener in listeners:
            listeners.remove(listener)

    async def until_placed_or_gone(self, group_id: bytes) -> pg.PlacementGroupRecord:
        """Waits for CREATED or a final state."""
        self.watch(group_id)
        while True:
            record = self._records.get(group_id)
            if record is not None and (
                record.state == pg.PLACEMENT_GROUP_STATE_CREATED or record.state in _FINAL
            ):
                return record
            await self._next_change(group_id)

    async def until_accepted(self, group_id: bytes) -> pg.GroupRefusal | None:
        """Waits until the creation is durable; a refusal is returned."""
        while group_id in self._unaccepted:
            await self._next_change(group_id)
        return self._refused.get(group_id)

    async def until_removed(self, group_id: bytes) -> None:
        """Waits until the removal is durable."""
        while group_id in self._unremoved:
            await self._next_change(group_id)

    async def _next_change(self, group_id: bytes) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.setdefault(group_id, []).append(future)
        await future

    def _tell(self, group_id: bytes) -> None:
        for future in self._changed.pop(group_id, ()):
            if not future.done():
                future.set_result(None)

    # ---- stream

    async def _write(self, items: Sequence[pg.GroupRequest]) -> None:
        await self._stream.write(pg.GroupRequestFrame(items=items))

    async def _run(self) -> None:
        delay = limits.RECONNECT_DELAY_MIN_S
        while not self._is_over:
            seen = await self._connect_once()
            delay = limits.RECONNECT_DELAY_MIN_S if seen else delay
            await asyncio.sleep(delay)
            delay = min(delay * 2, limits.RECONNECT_DELAY_MAX_S)

    async def _connect_once(self) -> bool:
        seen = False
        sender: asyncio.Task[None] | None = None
        try:
            stream: Any = rpc.PlacementGroupServiceStub(self._channel).Session(wait_for_ready=True)
            self._stream = stream
            await stream.write(pg.GroupRequestFrame(items=self._opening()))
            sender = self._io.keeper.start(self._send(stream), "group outbox")
            while True:
                frame = await stream.read()
                if frame is aio.EOF:
                    return seen
                seen = True
                self._take(frame)
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            self._is_over = self._is_final(error)
            self._unless_over()
            return seen
        finally:
            if sender is not None:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)

    async def _send(self, stream: Any) -> None:
        try:
            await self._outbox.run()
        except (grpc.RpcError, asyncio.InvalidStateError):
            stream.cancel()  # the reader sees it and reconnects

    def _unless_over(self) -> None:
        """When the cluster is gone all groups are, and nobody answers any more."""
        if not self._is_over:
            return
        for group_id in [*self._unremoved, *self._watched]:
            self._unremoved.pop(group_id, None)
            self._unaccepted.pop(group_id, None)
            gone = pg.PlacementGroupRecord(state=pg.PLACEMENT_GROUP_STATE_REMOVED)
            gone.spec.placement_group_id = group_id
            gone.reason, gone.message = "removed", "the cluster is gone"
            self._take_record(gone)

    def _opening(self) -> list[pg.GroupRequest]:
        """Who we are, then everything the GCS may not have heard: it is idempotent by id."""
        items = [pg.GroupRequest(hello=self._hello)]
        items += [pg.GroupRequest(create=spec) for spec in self._unaccepted.values()]
        items += [pg.GroupRequest(remove=group_id) for group_id in self._unremoved]
        items += [
            pg.GroupRequest(watch=group_id)
            for group_id in self._watched
            if group_id not in self._unaccepted
        ]
        return items

    def _take(self, frame: pg.GroupAnswerFrame) -> None:
        for refusal in frame.refusals:
            self._refused[refusal.placement_group_id] = refusal
            self._unaccepted.pop(refusal.placement_group_id, None)
            gone = pg.PlacementGroupRecord(state=pg.PLACEMENT_GROUP_STATE_REMOVED)
            gone.spec.placement_group_id = refusal.placement_group_id
            gone.reason, gone.message = refusal.reason, refusal.message
            self._take_record(gone)
        for group_id in frame.create_accepted:
            self._unaccepted.pop(group_id, None)
            self._tell(group_id)
        for record in frame.groups:
            self._take_record(record)
        for group_id in frame.removal_accepted:
            self._unremoved.pop(group_id, None)
            self._tell(group_id)

    def _take_record(self, record: pg.PlacementGroupRecord) -> None:
        group_id = record.spec.placement_group_id
        old = self._records.get(group_id)
        if old is not None and record.version and record.version < old.version:
            return
        if old is None and len(self._records) >= limits.GROUP_CACHE_MAX:
            self._forget_oldest_final()
        self._records[group_id] = record
        if record.state in _FINAL:
            self._watched.pop(group_id, None)
        for listener in list(self._listeners.get(group_id, ())):
            listener(record)
        self._tell(group_id)

    def _forget_oldest_final(self) -> None:
        for group_id, record in self._records.items():
            if record.state in _FINAL:
                del self._records[group_id]
                self._listeners.pop(group_id, None)
                return
