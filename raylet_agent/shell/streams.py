"""Serving one bidirectional stream: read frames, write what the outbox holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc
from grpc import aio

from raylet_agent.shell.host import Stream


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
