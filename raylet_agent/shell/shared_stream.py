"""One stream to the GCS for several nodes: a relay's, or a fleet's.

What the nodes say while a frame is on its way leaves as the next one; what comes is told apart by
the node it names, and what names none is for all. Each node has a `NodeCall`, which its session
uses like a stream of its own: it breaks alone, or with all others when the stream itself does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc

from cluster_api.v1 import node_session_pb2 as n
from cluster_common import limits as common_limits
from cluster_common.transport.task_keeper import TaskKeeper
from raylet_agent.shell.node_call import NodeCall

_FOR_ALL = frozenset({"node_change", "owners_died", "view"})
"""Items that need not name a node."""

_BROKE = (grpc.StatusCode.UNAVAILABLE, "the stream broke")
_GIVEN_UP = (grpc.StatusCode.CANCELLED, "the stream was given up")
_REPLACED = (grpc.StatusCode.CANCELLED, "the node registered anew")


class SharedStream:
    """Opens the stream when the first node needs it; a new one after it ended.

    Args:
        connect: opens a stream to the GCS.
        keeper: of the task that serves it.
    """

    def __init__(self, connect: Callable[[], Any], keeper: TaskKeeper) -> None:
        self._connect = connect
        self._keeper = keeper
        self._upstream: _Upstream | None = None

    def connect(self) -> NodeCall:
        """One node's part; its first frame must register the node."""
        upstream = self._upstream
        if upstream is None or upstream.has_ended:
            upstream = self._upstream = _Upstream(self._connect())
            self._keeper.start(upstream.run(), "shared_stream")
        return NodeCall(upstream)


class _Batch:
    """What leaves together; `done` when it left, or when it cannot leave any more."""

    __slots__ = ("done", "items", "went")

    def __init__(self) -> None:
        self.items: list[n.AgentItem] = []
        self.done = asyncio.Event()
        self.went = False


class _Upstream:
    """One life of the stream. Belongs to the loop's thread."""

    def __init__(self, call: Any) -> None:
        self.has_ended = False
        """Nobody joins it any more; what it took may still be on its way."""
        self._call = call
        self._calls: dict[bytes, NodeCall] = {}
        self._unsent = _Batch()
        self._wake = asyncio.Event()

    def attach(self, call: NodeCall) -> None:
        """The node's items are its call's; the older one of two calls of a node has ended."""
        if self.has_ended:
            call.end(*_BROKE)
            return
        earlier = self._calls.get(call.node_id)
        if earlier is not None:
            if earlier.incarnation > call.incarnation:
                call.end(*_REPLACED)
                return
            earlier.end(*_REPLACED)
        self._calls[call.node_id] = call

    async def send(self, items: Sequence[n.AgentItem]) -> bool:
        """Returns when gRPC took them; False: the stream has ended."""
        if self.has_ended:
            return False
        batch = self._unsent
        batch.items += items
        self._wake.set()
        await batch.done.wait()
        return batch.went

    def leave(self, call: NodeCall) -> None:
        """The node gives its session up. The last one ends the stream, behind what was said."""
        if self._calls.get(call.node_id) is not call:
            return
        del self._calls[call.node_id]
        if self.has_ended:
            return
        if self._calls:
            left = n.AgentItem(node_id=call.node_id, session_left=n.SessionLeft())
            self._unsent.items.append(left)
        else:
            self.has_ended = True
        self._wake.set()

    async def run(self) -> None:
        """Until the stream ends."""
        writer = asyncio.get_running_loop().create_task(self._write())
        end = _BROKE
        try:
            end = await self._read()
        except grpc.aio.AioRpcError as error:
            end = (error.code(), error.details() or "")
        except asyncio.CancelledError:
            end = _GIVEN_UP
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
        finally:
            self.has_ended = True
            self._call.cancel()
            # Before anything is awaited: no call may miss the end.
            for call in list(self._calls.values()):
                call.end(*end)
            self._calls.clear()
            writer.cancel()
            with suppress(asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
                await writer
            self._unsent.done.set()

    async def _write(self) -> None:
        try:
            while self._unsent.items or not self.has_ended:
                if not self._unsent.items:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                batch, self._unsent = self._unsent, _Batch()
                await self._write_batch(batch)
            await self._call.done_writing()
        except BaseException:
            self._call.cancel()  # who reads learns of it
            raise

    async def _write_batch(self, batch: _Batch) -> None:
        try:
            for frame in _frames(batch.items):
                await self._call.write(frame)
            batch.went = True
        finally:
            batch.done.set()

    async def _read(self) -> tuple[grpc.StatusCode, str]:
        while True:
            frame: Any = await self._call.read()
            if frame is grpc.aio.EOF:
                return await self._call.code(), await self._call.details() or ""
            self._hand_out(frame)

    def _hand_out(self, frame: n.GcsFrame) -> None:
        told: dict[NodeCall, None] = {}
        for item in frame.items:
            calls: list[NodeCall] = []
            if item.node_id in self._calls:
                calls = [self._calls[item.node_id]]
            elif not item.node_id and item.WhichOneof("item") in _FOR_ALL:
                calls = list(self._calls.values())
            for call in calls:
                call.put(item)
                told[call] = None
        for call in told:
            call.wake()


def _frames(items: list[n.AgentItem]) -> list[n.AgentFrame]:
    """As few as the bounds of a frame allow."""
    frames: list[n.AgentFrame] = []
    part: list[n.AgentItem] = []
    size = 0
    for item in items:
        item_size = item.ByteSize()
        full = len(part) >= common_limits.FRAME_ITEMS_MAX
        if part and (full or size + item_size > common_limits.FRAME_BYTES_MAX):
            frames.append(n.AgentFrame(items=part))
            part, size = [], 0
        part.append(item)
        size += item_size
    frames.append(n.AgentFrame(items=part))
    return frames
