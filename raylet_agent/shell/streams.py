"""Serving one bidirectional stream: read frames, write what the outbox holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
from grpc import aio

from cluster_common.transport.outbox import Outbox


async def serve_frames(
    context: aio.ServicerContext[Any, Any],
    outbox: Outbox[Any],
    on_frame: Callable[[Any], Awaitable[None] | None],
) -> None:
    """Until the peer closes or breaks; then everything queued gets a moment to leave."""
    writer = asyncio.get_running_loop().create_task(outbox.run())
    try:
        while True:
            frame: Any = await context.read()
            if frame is aio.EOF:
                return
            on_frame(frame)
    finally:
        writer.cancel()
        with suppress(asyncio.CancelledError, grpc.RpcError, RuntimeError):
            await writer
