"""One lease session to one agent: requests, returns and cancels out; grants and endings in.

Batched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import grpc
from grpc import aio

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import agent_pb2_grpc as rpc
from cluster_common.transport import faults
from cluster_common.transport.endpoints import make_channel
from cluster_common.transport.outbox import Outbox
from driver_client import limits
from driver_client.shell.io_thread import IoThread


class SessionListener(Protocol):
    """Who handles what an agent says."""

    def open_items(self, session: LeaseSession) -> pb.OpenOwner:
        """The first item of every (re)connect."""
        ...

    def item_arrived(self, session: LeaseSession, item: pb.LeaseItem) -> None:
        """One item from the agent."""
        ...

    def session_lost(self, session: LeaseSession, message: str, *, refused: bool) -> None:
        """The session broke and could not be resumed. `refused`: nobody listens at the address."""
        ...


class LeaseSession:
    """Keeps itself connected for `AGENT_RECONNECT_S` after a break, then reports the loss."""

    def __init__(self, io: IoThread, address: str, listener: SessionListener) -> None:
        self.address = address
        self.node_id = b""
        self.welcomed = asyncio.Event()
        self.welcome: pb.AgentWelcome | None = None
        self.lost = False
        self.welcomes = 0
        self._heard_s = io.loop.time()
        self._io = io
        self._listener = listener
        self._outbox: Outbox[pb.OwnerItem] = Outbox(self._write)
        self._stream: Any = None
        self._task = io.keeper.start(self._run(), f"lease session {address}")

    def send(self, item: pb.OwnerItem) -> None:
        """Queues an item; it outlives a reconnect."""
        self._outbox.put(item)

    async def drained(self, timeout_s: float) -> None:
        """Waits until what was queued is written, at most `timeout_s`."""
        try:
            await asyncio.wait_for(self._outbox.drained(), timeout_s)
        except TimeoutError:
            return

    def silent_s(self) -> float:
        """Seconds since the agent was heard last."""
        return self._io.loop.time() - self._heard_s

    def close(self) -> None:
        """Ends the session without a report."""
        self.lost = True
        self._task.cancel()

    async def _write(self, items: Sequence[pb.OwnerItem]) -> None:
        await self._stream.write(pb.OwnerFrame(items=items))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limits.CONNECT_TIMEOUT_S
        delay = limits.RECONNECT_DELAY_MIN_S
        refusals = 0
        while True:
            self.welcomed.clear()
            message = await self._connect_once()
            if self.lost:
                return
            now = loop.time()
            if self.welcomed.is_set():
                deadline = now + limits.AGENT_RECONNECT_S
                delay = limits.RECONNECT_DELAY_MIN_S
                refusals = 0
            # A closed port on a host that answers means the agent's process is gone for good: its
            # node id is never used again. Twice, since a port may be seen closed during a restart.
            refusals = refusals + 1 if await self._port_refuses() else 0
            if refusals >= 2 or now >= deadline:
                self.lost = True
                self._listener.session_lost(self, message, refused=refusals >= 2)
                return
            await asyncio.sleep(delay)
            delay = min(delay * 2, limits.RECONNECT_DELAY_MAX_S)

    async def _port_refuses(self) -> bool:
        if faults.cuts_address(self.address):
            return False
        host, _, port = self.address.rpartition(":")
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), 1.0)
        except ConnectionRefusedError:
            return True
        except (OSError, TimeoutError):
            return False
        writer.close()
        return False

    async def _connect_once(self) -> str:
        channel = make_channel(self.address, own_connection=True)
        sender: asyncio.Task[None] | None = None
        try:
            stream: Any = rpc.AgentServiceStub(channel).LeaseSession()
            self._stream = stream
            opening = pb.OwnerItem(open=self._listener.open_items(self))
            await stream.write(pb.OwnerFrame(items=[opening]))
            while True:
                frame = await stream.read()
                if frame is aio.EOF:
                    return "the agent ended the session"
                self._heard_s = self._io.loop.time()
                for item in frame.items:
                    if item.HasField("welcome"):
                        self.welcome = item.welcome
                        self.node_id = item.welcome.node_id
                        self.welcomed.set()
                        self.welcomes += 1
                    self._listener.item_arrived(self, item)
                if sender is None and self.welcomed.is_set():
                    sender = self._io.keeper.start(self._outbox.run(), "lease outbox")
        except grpc.RpcError as error:
            details = getattr(error, "details", lambda: "")()
            return f"{getattr(error, 'code', lambda: '')()}: {details}"
        except asyncio.InvalidStateError as error:
            return str(error)
        finally:
            if sender is not None:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)
            await channel.close()
