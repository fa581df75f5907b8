"""Serving one bidirectional stream: read frames, write what the outbox holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc
from grpc import aio

from raylet_agent.shell.host import Stream


async def first_items(
    context: aio.ServicerContext[Any, Any], stream: str, kind: str
) -> Sequence[Any] | None:
    """The items of a stream's first frame, the first of `kind`; None: the peer left before.

    Aborts the call when the peer begins with something else.
    """
    first: Any = await context.read()
    if first is aio.EOF:
        return None
    if not first.items or first.items[0].WhichOneof("item") != kind:
        message = f"the first item of {stream} must be `{kind}`"
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)
    return first.items


async def serve_frames(
    context: aio.ServicerContext[Any, Any],
    stream: Stream,
    on_frame: Callable[[Any], None],
) -> None:
    """Until the peer closes or breaks, or the stream is ended from here."""
    writer = asyncio.get_running_loop().create_task(stream.outbox.run())
    try:
        while True:
            frame: Any = await context.read()
            if frame is aio.EOF:
                return
            on_frame(frame)
    except asyncio.CancelledError:
        if not stream.ended_here:
            raise
        await context.abort(grpc.StatusCode.ABORTED, "ended by the agent: replaced, or too slow")
    finally:
        writer.cancel()
        with suppress(asyncio.CancelledError, grpc.RpcError, RuntimeError):
            await writer
