"""A worker's stream to its agent: who it works for, and when it must go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from grpc import aio

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import agent_pb2_grpc as rpc
from cluster_common.transport.endpoints import make_channel
from cluster_common.transport.outbox import Outbox
from driver_client.shell.io_thread import IoThread


class WorkerLink:
    """I/O thread only. When the stream ends the worker has no agent and must end too."""

    def __init__(
        self,
        io: IoThread,
        agent_address: str,
        register: pb.RegisterWorker,
        command: Callable[[pb.WorkerCommand], None],
        lost: Callable[[], None],
    ) -> None:
        self._io = io
        self._register = register
        self._command = command
        self._lost = lost
        self._channel: aio.Channel = make_channel(agent_address)
        self._outbox: Outbox[pb.WorkerItem] = Outbox(self._write)
        self._stream: Any = rpc.AgentServiceStub(self._channel).WorkerLink()
        io.keeper.start(self._run(), "worker link")

    def send(self, item: pb.WorkerItem) -> None:
        """Queues an item for the agent."""
        self._outbox.put(item)

    async def _write(self, items: Sequence[pb.WorkerItem]) -> None:
        await self._stream.write(pb.WorkerFrame(items=items))

    async def _run(self) -> None:
        self._outbox.put(pb.WorkerItem(register=self._register))
        sender = self._io.keeper.start(self._send(), "worker link outbox")
        try:
            while True:
                frame = await self._stream.read()
                if frame is aio.EOF:
                    return
                for item in frame.items:
                    self._command(item)
        except (grpc.RpcError, asyncio.InvalidStateError):
            return
        finally:
            sender.cancel()
            self._lost()

    async def _send(self) -> None:
        try:
            await self._outbox.run()
        except (grpc.RpcError, asyncio.InvalidStateError):
            self._stream.cancel()
