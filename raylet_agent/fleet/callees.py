"""`CoreWorkerService` of all faked workers: actors are created, calls are answered with None.

One server for the whole fleet; a caller says in its first frame which worker it means.
"""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import grpc
from grpc import aio

from cluster_api.v1 import core_worker_pb2 as c

_SERVICE = c.DESCRIPTOR.services_by_name["CoreWorkerService"].full_name
NONE = pickle.dumps(None, 5)
"""How a worker writes the value None."""


class Callees:
    """Faked workers that live, and the streams of their callers."""

    def __init__(self) -> None:
        self.address = ""
        self.calls = 0
        self._streams: dict[bytes, set[asyncio.Task[Any]]] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def born(self, worker_id: bytes) -> None:
        """A worker that answers from now on."""
        self._streams[worker_id] = set()

    def lives(self, worker_id: bytes) -> bool:
        """Whether it answers."""
        return worker_id in self._streams

    def died(self, worker_id: bytes) -> None:
        """Its process would be gone: its callers' streams end."""
        for task in self._streams.pop(worker_id, ()):
            task.cancel()

    def handler(self) -> grpc.GenericRpcHandler:
        """What a server adds: `Connect` only, the other questions are for real workers."""
        connect = grpc.stream_stream_rpc_method_handler(
            self._connect,
            request_deserializer=c.PeerFrame.FromString,
            response_serializer=c.PeerReplyFrame.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(_SERVICE, {"Connect": connect})

    async def _connect(self, _requests: object, context: aio.ServicerContext[Any, Any]) -> None:
        """One caller's stream."""
        first: Any = await context.read()
        if first is aio.EOF:
            return
        worker_id = first.hello.receiver_id
        streams = self._streams.get(worker_id)
        if streams is None:
            message = f"no worker {worker_id.hex()} lives here"
            refusal = c.PeerRefused(reason="wrong_receiver", message=message)
            await context.write(c.PeerReplyFrame(refused=refusal))
            return
        task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"
        streams.add(task)
        try:
            await self._serve(context, first)
        except asyncio.CancelledError:
            if self.lives(worker_id):
                raise
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the worker's process ended")
        finally:
            streams.discard(task)

    async def _serve(
        self, context: aio.ServicerContext[c.PeerFrame, c.PeerReplyFrame], frame: Any
    ) -> None:
        returns: dict[int, int] = {}
        while frame is not aio.EOF:
            reply = self._reply(frame, returns)
            if reply.ByteSize():
                await context.write(reply)
            frame = await context.read()

    def _reply(self, frame: c.PeerFrame, returns: dict[int, int]) -> c.PeerReplyFrame:
        for function in frame.functions:
            returns[function.index] = function.num_returns
        reply = c.PeerReplyFrame()
        if frame.HasField("create_actor"):
            created = frame.create_actor
            reply.actor_created.actor_id = created.actor_id
            reply.actor_created.incarnation = created.incarnation
            reply.actor_created.ok = True
        for change in frame.borrows:
            if not change.removed:
                reply.borrow_acks.add(object_id=change.object_id)
        if frame.calls.task_seq:
            self._answer(frame.calls, returns, reply.results)
        return reply

    def _answer(self, calls: c.CallBatch, returns: dict[int, int], results: c.ResultBatch) -> None:
        count = len(calls.task_seq)
        self.calls += count
        results.task_seq.extend(calls.task_seq)
        results.value.extend([NONE] * count)
        kinds = bytearray(count)
        for position, function in enumerate(calls.function):
            wanted = returns.get(function, 1)
            if wanted > 1:
                kinds[position] = c.RESULT_KIND_MULTIPLE
                results.details.add(position=position, values=[NONE] * wanted)
        results.kinds = bytes(kinds)
