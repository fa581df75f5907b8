"""Where faults meet gRPC: every call says which node it comes from, every server obeys the book.

The receiving side does all of it, for both directions: what a peer sent is not read, what it should
get is not written, and its end is not noticed, for as long as a way is cut. The peer sees a silent
connection, as with a pulled cable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
from grpc import aio

from cluster_common.transport import auth
from cluster_common.transport.faults import Action, ProcessFaults

_METADATA_KEY = "shoal-fault-node"
_OURS = "/cluster_api.v1."

Handler = Any  # grpc.RpcMethodHandler; its own type parameters exist in stubs only


def naming(channel: aio.Channel, faults: ProcessFaults) -> aio.Channel:
    """A channel whose calls say of which node this process is."""
    return auth.TokenChannel(channel, ((_METADATA_KEY, faults.node),))


class FaultInterceptor(aio.ServerInterceptor):
    """Puts every call of our services under the faults of this process."""

    def __init__(self, faults: ProcessFaults) -> None:
        self._faults = faults

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """The real handler inside one of the same shape."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None or not method.startswith(_OURS):
            return handler
        peer = ""
        for key, value in handler_call_details.invocation_metadata or ():
            if key == _METADATA_KEY:
                peer = value if isinstance(value, str) else value.decode()
        return _around(handler, _Line(self._faults, method.removeprefix(_OURS), peer))


class _Line:
    """One call: its name, where it comes from, and what the book says of it."""

    def __init__(self, faults: ProcessFaults, kind: str, peer: str) -> None:
        self._faults = faults
        self.kind = kind
        self.peer = peer

    async def opened(self, context: Any, *, is_stream: bool = False) -> None:
        """Before the handler begins. A stream's messages are delayed or lost one by one later."""
        if self._faults.is_quiet():
            return
        await self._faults.until_whole(self.peer)
        actions: tuple[Action, ...] = ("fail",) if is_stream else ("delay", "fail", "drop")
        verdict = await self._faults.pace(self.kind, self.peer, actions=actions)
        if verdict == "drop":
            await self._faults.until_cleared(self.kind, self.peer)
        if verdict != "pass":
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{self.kind}: a test let it fail")

    async def received(self) -> bool:
        """A message was read; False: it is lost."""
        if self._faults.is_quiet():
            return True
        await self._faults.until_whole(self.peer)
        verdict = await self._faults.pace(self.kind, self.peer, actions=("delay", "drop"))
        return verdict == "pass"

    async def sending(self) -> None:
        """Before a message is written."""
        if self._faults.is_quiet():
            return
        await self._faults.pace(self.kind, self.peer, answer=True, actions=("delay",))
        await self._faults.until_whole(self.peer)

    async def whole(self) -> None:
        """Waits while the way is cut."""
        await self._faults.until_whole(self.peer)


class _Context:
    """The servicer's context with messages under the line."""

    def __init__(self, context: Any, line: _Line) -> None:
        self._context = context
        self._line = line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def read(self) -> Any:
        """The next message that is not lost."""
        while True:
            message = await self._context.read()
            if await self._line.received() or message is aio.EOF:
                return message

    async def write(self, message: Any) -> None:
        """Writes when the line lets it through."""
        await self._line.sending()
        await self._context.write(message)


def _around(handler: Any, line: _Line) -> Handler:
    coders: dict[str, Any] = {
        "request_deserializer": handler.request_deserializer,
        "response_serializer": handler.response_serializer,
    }
    if handler.request_streaming and handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(_stream(handler.stream_stream, line), **coders)
    if handler.request_streaming:
        return grpc.stream_unary_rpc_method_handler(_upload(handler.stream_unary, line), **coders)
    if handler.response_streaming:
        serve = handler.unary_stream
        around = _download if _generates(serve) else _stream
        return grpc.unary_stream_rpc_method_handler(around(serve, line), **coders)
    return grpc.unary_unary_rpc_method_handler(_unary(handler.unary_unary, line), **coders)


def _generates(serve: Any) -> bool:
    return bool(getattr(getattr(serve, "__code__", None), "co_flags", 0) & 0x200)


def _unary(serve: Any, line: _Line) -> Any:
    async def answer(request: Any, context: Any) -> Any:
        await line.opened(context)
        try:
            result = await serve(request, context)
        finally:
            await line.whole()
        await line.sending()
        return result

    return answer


def _stream(serve: Any, line: _Line) -> Any:
    async def answer(request: Any, context: Any) -> None:
        await line.opened(context, is_stream=True)
        # A task of its own: behind a cut the handler must not learn that its peer went away.
        task = asyncio.ensure_future(serve(request, _Context(context, line)))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            with suppress(asyncio.CancelledError):
                await line.whole()
            task.cancel()
            await asyncio.wait({task})
            raise
        await line.whole()
        task.result()

    return answer


def _upload(serve: Any, line: _Line) -> Any:
    async def passed(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for request in requests:
            if await line.received():
                yield request

    async def answer(requests: AsyncIterator[Any], context: Any) -> Any:
        result = await serve(passed(requests), context)
        await line.sending()
        return result

    return answer


def _download(serve: Any, line: _Line) -> Any:
    async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
        await line.opened(context)
        async for item in serve(request, context):
            await line.sending()
            yield item

    return answer
