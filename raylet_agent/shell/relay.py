"""An agent that carries the sessions of other agents: one stream to the GCS for a whole rack.

The GCS pays for messages, not for what is in them (about 60 us each), so a command for a rack
costs it one message instead of one per node. It knows every node as before: each registers,
is pinged and declared dead by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import grpc
from grpc import aio

from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import node_session_pb2_grpc
from cluster_common import ids
from cluster_common.transport.outbox import Outbox, OutboxOverflowError
from cluster_common.transport.task_keeper import TaskKeeper
from raylet_agent import limits
from raylet_agent.shell.gcs_routes import GcsRoutes
from raylet_agent.shell.node_call import NodeCall
from raylet_agent.shell.shared_stream import SharedStream

_End = tuple[grpc.StatusCode, str]
_OF_RELAYS = frozenset({"register", "session_left"})
"""What a node says once, at the beginning, or never itself."""


class Relay(node_session_pb2_grpc.NodeSessionServiceServicer):
    """Serves `NodeSessionService` for agents started with `--via`.

    Args:
        gcs_address: where the sessions go; never through another relay.
        keeper: of the task that serves the stream.
    """

    def __init__(self, gcs_address: str, keeper: TaskKeeper) -> None:
        self._gcs_address = gcs_address
        self._routes = GcsRoutes(gcs_address)
        self._stream = SharedStream(self._routes.stream, keeper)
        self._carried = 0

    async def Connect(  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride] - the stub knows both kinds of server
        self, _requests: object, context: aio.ServicerContext[n.AgentFrame, n.GcsFrame]
    ) -> None:
        """One node's session, as long as both its stream and ours live."""
        first: Any = await context.read()
        if first is aio.EOF:
            return
        problem = _problem_of_first(first)
        if problem:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        if self._carried >= limits.RELAYED_NODES_MAX:
            text = f"this relay carries {limits.RELAYED_NODES_MAX} nodes, its limit"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        # By themselves: gRPC cannot end a call while a message that brings them is on its way.
        await context.send_initial_metadata(())
        self._carried += 1
        try:
            code, details = await self._carry(first, context)
        finally:
            self._carried -= 1
        if code != grpc.StatusCode.OK:
            await context.abort(code, details)

    async def close(self) -> None:
        """After the server has stopped."""
        await self._routes.close()

    async def _carry(
        self, first: n.AgentFrame, context: aio.ServicerContext[n.AgentFrame, n.GcsFrame]
    ) -> _End:
        # Nodes wait here rather than find their own ways while the GCS restarts.
        if not await self._routes.reaches_gcs(limits.RELAY_REACHES_GCS_S):
            text = f"this relay does not reach the GCS at {self._gcs_address}"
            return grpc.StatusCode.UNAVAILABLE, text
        return await _Passage(self._stream.connect(), context).run(first)


class _Passage:
    """One node's items on their way, up and down."""

    def __init__(
        self, call: NodeCall, context: aio.ServicerContext[n.AgentFrame, n.GcsFrame]
    ) -> None:
        self._call = call
        self._context = context
        self._outbox: Outbox[n.GcsItem] = Outbox(self._write, size_of=n.GcsItem.ByteSize)

    async def run(self, first: n.AgentFrame) -> _End:
        """Until one of both sides ends; how."""
        sides: tuple[Coroutine[Any, Any, _End | None], ...] = (
            self._up(first),
            self._down(),
            self._send(),
        )
        tasks = [asyncio.ensure_future(side) for side in sides]
        try:
            waiting = set(tasks)
            while True:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    end = task.result() if task in done else None
                    if end is not None:
                        return end
        finally:
            self._call.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _up(self, first: n.AgentFrame) -> _End | None:
        """None: the GCS's side has ended, which `_down` tells after the last item."""
        frame: Any = first
        while frame is not aio.EOF:
            try:
                await self._call.write(frame)
            except asyncio.InvalidStateError:
                return None
            frame = await self._context.read()
            if frame is not aio.EOF:
                problem = _problem_of(frame, self._call.node_id)
                if problem:
                    return grpc.StatusCode.INVALID_ARGUMENT, problem
        return grpc.StatusCode.OK, "the node ended its session"

    async def _down(self) -> _End:
        try:
            while (frame := await self._call.read()) is not aio.EOF:
                for item in frame.items:
                    self._outbox.put(item, _key(item))
        except OutboxOverflowError:
            return grpc.StatusCode.RESOURCE_EXHAUSTED, "the node reads too slowly"
        await self._outbox.drained()  # a refusal is the last item
        return await self._call.code(), await self._call.details()

    async def _send(self) -> _End:
        try:
            await self._outbox.run()
        except (grpc.RpcError, aio.BaseError, RuntimeError):
            return grpc.StatusCode.UNAVAILABLE, "the node's stream broke"
        raise AssertionError("an outbox sends until it is cancelled")

    async def _write(self, items: Sequence[n.GcsItem]) -> None:
        await self._context.write(n.GcsFrame(items=items))


def _problem_of_first(frame: n.AgentFrame) -> str:
    if not frame.items or frame.items[0].WhichOneof("item") != "register":
        return "the first item of a node session must be `register`"
    node_id = frame.items[0].node_id
    if len(node_id) != ids.NODE_ID_BYTES:
        return f"a node id has {ids.NODE_ID_BYTES} bytes, not {len(node_id)}"
    return _problem_of(n.AgentFrame(items=frame.items[1:]), node_id)


def _problem_of(frame: n.AgentFrame, node_id: bytes) -> str:
    """Why a node may not say this: over the stream that it shares with others."""
    for item in frame.items:
        if item.node_id != node_id:
            return f"an item of node {item.node_id.hex()} in the session of {node_id.hex()}"
        if item.WhichOneof("item") in _OF_RELAYS:
            return f"`{item.WhichOneof('item')}` in the middle of a node session"
    return ""


def _key(item: n.GcsItem) -> tuple[str, bytes] | None:
    """Views and pings are replaced by newer ones while unsent."""
    match item.WhichOneof("item"):
        case "view":
            return "view", item.view.node_id
        case "ping":
            return "ping", item.node_id
        case _:
            return None
