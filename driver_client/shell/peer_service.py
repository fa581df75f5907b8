"""`CoreWorkerService`: what this process answers to callers, borrowers, agents and others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

import grpc
from grpc import aio

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_common.transport import faults
from driver_client import exceptions, limits
from driver_client.object_ref import entry_of
from driver_client.objects import entry as entries
from driver_client.objects.entry import Entry, key_of
from driver_client.shell.function_store import FunctionStore, LocalFunction, extend_module_path
from driver_client.shell.io_thread import IoThread
from driver_client.shell.ownership import Ownership
from driver_client.shell.peer_stream import PeerStream


class CallTarget(Protocol):
    """Who runs calls (a worker's executor; a driver refuses them)."""

    def accept(self, stream: PeerStream, calls: pb.CallBatch) -> None:
        """Takes a batch of calls."""
        ...

    def create_actor(self, stream: PeerStream, message: pb.CreateActor) -> None:
        """Runs a constructor."""
        ...

    def cancel(self, stream: PeerStream, frame: pb.PeerFrame) -> None:
        """Cancels calls."""
        ...

    def stream_closed(self, stream: PeerStream) -> None:
        """The caller is gone: what it queued is dropped."""
        ...


class ProcessHooks(Protocol):
    """What the service needs from its process."""

    cluster_id: bytes
    owner_id: bytes

    def greeted(self, hello: pb.PeerHello) -> None:
        """A caller introduced itself."""
        ...

    def cancel_owned(self, frame: pb.PeerFrame) -> None:
        """A borrower asks to cancel calls that this process owns."""
        ...

    def watch_actor(self, actor_id: bytes, stream: PeerStream) -> None:
        """Sends the actor's records to the stream."""
        ...

    def unwatch_actor(self, actor_id: bytes, stream: PeerStream) -> None:
        """Ends `watch_actor`."""
        ...

    async def kill_actor(self, actor_id: bytes, *, no_restart: bool, reason: str) -> bool:
        """Kills an owned actor; whether it is owned here."""
        ...

    def print_logs(self, lines: pb.LogLines) -> None:
        """Output of workers."""
        ...

    def state_counts(self) -> dict[str, int]:
        """Sizes of the tables."""
        ...


class PeerService(rpc.CoreWorkerServiceServicer):
    """All methods run on the I/O thread."""

    def __init__(
        self,
        io: IoThread,
        ownership: Ownership,
        functions: FunctionStore,
        target: CallTarget | None,
        hooks: ProcessHooks,
    ) -> None:
        self._io = io
        self._ownership = ownership
        self._functions = functions
        self._target = target
        self._hooks = hooks
        self.streams: set[PeerStream] = set()

    async def Connect(  # noqa: N802 - gRPC name  # pyright: ignore[reportIncompatibleMethodOverride] - reads and writes itself
        self, request_iterator: AsyncIterator[pb.PeerFrame], context: Any
    ) -> None:
        """One caller's stream."""
        stream = PeerStream(self._io)
        self.streams.add(stream)
        writer = self._io.keeper.start(_write_until_gone(stream, context), "peer writer")
        watched: set[bytes] = set()
        try:
            while True:
                frame = await context.read()
                if frame is aio.EOF:
                    return
                if frame.HasField("hello") and not self._greet(stream, frame.hello):
                    await context.write(self._refusal(frame.hello))
                    return
                if frame.HasField("create_actor") and not await self._may_create(stream, frame):
                    continue
                try:
                    self._take(stream, frame, watched)
                except (ValueError, LookupError) as error:
                    text = f"a frame that makes no sense to this process: {error!r}"
                    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        finally:
            stream.closed = True
            stream.read_to_its_end.set()
            self.streams.discard(stream)
            writer.cancel()
            self._closed(stream, watched)

    async def _may_create(self, stream: PeerStream, frame: pb.PeerFrame) -> bool:
        """Whether no test wants this actor's creation to be lost or to fail; waits out a delay."""
        ordered = faults.active()
        verdict = "pass" if ordered is None else await ordered.pace("actor_create")
        if verdict == "fail":
            error = exceptions.RayError("a test let the creation fail")
            created = pb.ActorCreated(
                actor_id=frame.create_actor.actor_id,
                incarnation=frame.create_actor.incarnation,
                error=exceptions.pickle_error(error),
            )
            stream.extras().actor_created.CopyFrom(created)
        return verdict == "pass"

    def _greet(self, stream: PeerStream, hello: pb.PeerHello) -> bool:
        stream.sender_id = hello.sender_id
        stream.sender_address = hello.sender_address
        stream.lease_id = hello.lease_id
        other = hello.receiver_id and hello.receiver_id != self._hooks.owner_id
        if other or self._is_other_cluster(hello):
            return False
        extend_module_path(hello.sys_path)
        self._hooks.greeted(hello)
        return True

    def _is_other_cluster(self, hello: pb.PeerHello) -> bool:
        own = self._hooks.cluster_id  # empty in a worker until its agent's welcome is read
        return bool(own and hello.cluster_id and hello.cluster_id != own)

    def _refusal(self, hello: pb.PeerHello) -> pb.PeerReplyFrame:
        reason = "other_cluster" if self._is_other_cluster(hello) else "wrong_receiver"
        text = f"this is process {self._hooks.owner_id.hex()}, {hello.receiver_id.hex()} was meant"
        return pb.PeerReplyFrame(refused=pb.PeerRefused(reason=reason, message=text))

    def _take(self, stream: PeerStream, frame: pb.PeerFrame, watched: set[bytes]) -> None:
        for definition in frame.functions:
            self._functions.add(definition)
            stream.functions[definition.index] = LocalFunction(definition)
        if self._target is not None:
            if frame.HasField("create_actor"):
                self._target.create_actor(stream, frame.create_actor)
            if frame.calls.task_seq:
                self._target.accept(stream, frame.calls)
        if frame.cancel_task_ids:
            self._cancel(stream, frame)
        for taken in frame.generator_consumed:
            stream.items_consumed(taken.task_seq, taken.items)
        if frame.closing_read:
            stream.read_to_its_end.set()
        self._take_ownership(stream, frame, watched)

    def _cancel(self, stream: PeerStream, frame: pb.PeerFrame) -> None:
        self._hooks.cancel_owned(frame)
        if self._target is not None:
            self._target.cancel(stream, frame)

    def _take_ownership(self, stream: PeerStream, frame: pb.PeerFrame, watched: set[bytes]) -> None:
        for change in frame.borrows:
            self._borrow(stream, change)
        for object_id in frame.watch_object_ids:
            self._watch_object(stream, object_id)
        for task_id in frame.release_results:
            stream.held.pop(task_id, None)
        for actor_id in frame.watch_actor_ids:
            watched.add(actor_id)
            self._hooks.watch_actor(actor_id, stream)

    def _borrow(self, stream: PeerStream, change: pb.BorrowChange) -> None:
        self._ownership.borrow(change)
        if change.removed:
            stream.borrows.discard(change.object_id)
            return
        stream.borrows.add(change.object_id)
        stream.extras().borrow_acks.add(object_id=change.object_id)

    def _watch_object(self, stream: PeerStream, object_id: bytes) -> None:
        entry = self._ownership.own.get(key_of(object_id))
        if entry is None:
            stream.extras().object_states.add(object_id=object_id, status=pb.OBJECT_STATUS_UNKNOWN)
            return
        teller = _ObjectTeller(self._io, stream)
        if not entry.add_waiter(teller):
            teller.notify(entry)

    def _closed(self, stream: PeerStream, watched: set[bytes]) -> None:
        for actor_id in watched:
            self._hooks.unwatch_actor(actor_id, stream)
        if self._target is not None:
            self._target.stream_closed(stream)
        stream.held.clear()
        if stream.borrows:
            loop = asyncio.get_running_loop()
            loop.call_later(limits.BORROW_GRACE_S, self._borrower_gone, stream)

    def _borrower_gone(self, stream: PeerStream) -> None:
        back = any(other.sender_id == stream.sender_id for other in self.streams)
        if not back:
            self._ownership.borrower_gone(stream.sender_id, stream.borrows)

    async def FetchObject(  # noqa: N802 - gRPC name
        self, request: pb.FetchObjectRequest, context: Any
    ) -> AsyncIterator[pb.ObjectChunk]:
        """A value in chunks, for tools and large objects."""
        entry = self._ownership.own.get(key_of(request.object_id))
        if entry is None or entry.state == entries.PENDING:
            yield pb.ObjectChunk(unknown=True)
            return
        data = entry.data
        is_error = entry.state == entries.ERROR
        for offset in range(0, max(1, len(data)), limits.OBJECT_CHUNK_BYTES):
            part = data[offset : offset + limits.OBJECT_CHUNK_BYTES]
            yield pb.ObjectChunk(data=part, is_error=is_error, size_bytes=len(data))

    async def PushLogs(  # noqa: N802 - gRPC name
        self, request_iterator: AsyncIterator[pb.LogFrame], context: Any
    ) -> pb.PushLogsResponse:
        """Output of this job's workers on one node."""
        async for frame in request_iterator:
            for batch in frame.batches:
                self._hooks.print_logs(batch)
        return pb.PushLogsResponse()

    async def KillActor(  # noqa: N802 - gRPC name
        self, request: pb.KillActorRequest, context: Any
    ) -> pb.KillActorResponse:
        """Kills an actor that this process owns."""
        found = await self._hooks.kill_actor(
            request.actor_id, no_restart=request.no_restart, reason=request.reason
        )
        return pb.KillActorResponse(found=found)

    async def AdoptObject(  # noqa: N802 - gRPC name
        self, request: pb.AdoptObjectRequest, context: Any
    ) -> pb.AdoptObjectResponse:
        """A value that this process owns from now on; answered when nothing in it can be lost."""
        if request.receiver_id != self._hooks.owner_id:
            return pb.AdoptObjectResponse()
        ownership = self._ownership
        inner = [ownership.resolve(c.object_id, c.owner_address) for c in request.contained]
        entry = ownership.adopt(request.value, inner, request.borrower_id)
        known = asyncio.Event()
        ownership.after_acknowledged([c.object_id for c in request.contained], known.set)
        await known.wait()
        object_id, borrower_id = entry.object_id, request.borrower_id
        loop = asyncio.get_running_loop()
        loop.call_later(limits.BORROW_GRACE_S, self._unless_held, object_id, borrower_id)
        return pb.AdoptObjectResponse(adopted=True, object_id=object_id)

    def _unless_held(self, object_id: bytes, borrower_id: bytes) -> None:
        """Who gave the value may have ended before it could say that it holds a reference."""
        theirs = (stream for stream in self.streams if stream.sender_id == borrower_id)
        if not any(object_id in stream.borrows for stream in theirs):
            self._ownership.borrower_gone(borrower_id, {object_id})

    async def GetWorkerState(  # noqa: N802 - gRPC name
        self, request: pb.GetWorkerStateRequest, context: Any
    ) -> pb.GetWorkerStateResponse:
        """Sizes of this process's tables."""
        counts = self._hooks.state_counts()
        return pb.GetWorkerStateResponse(
            worker_id=self._hooks.owner_id,
            objects=counts.get("objects", 0),
            references=counts.get("borrowed", 0),
            pending_tasks=counts.get("pending_tasks", 0),
            actors=counts.get("actors", 0),
            counters={name: value for name, value in counts.items() if value >= 0},
        )


class _ObjectTeller:
    """Tells a borrower that an object is complete."""

    def __init__(self, io: IoThread, stream: PeerStream) -> None:
        self._io = io
        self._stream: PeerStream | None = stream

    def notify(self, entry: Entry) -> None:
        stream, self._stream = self._stream, None
        if stream is None:
            return
        if self._io.is_current:
            _tell_object(stream, entry)
        else:
            self._io.post(_tell_object, stream, entry)


def _tell_object(stream: PeerStream, entry: Entry) -> None:
    if stream.closed:
        return
    state = stream.extras().object_states.add(
        object_id=entry.object_id,
        status=pb.OBJECT_STATUS_READY,
        value=entry.data,
        is_error=entry.state == entries.ERROR,
        size_bytes=len(entry.data),
        has_value=True,
    )
    for ref in entry.contained or ():
        inner = entry_of(ref)
        state.contained.add(object_id=inner.object_id, owner_address=inner.owner_address)


async def _write_until_gone(stream: PeerStream, context: Any) -> None:
    try:
        await stream.write(context)
    except (grpc.RpcError, asyncio.InvalidStateError, aio.UsageError):
        return  # the reader ends the stream
