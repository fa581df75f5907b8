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
from cluster_common import limits as common_limits
from cluster_common.transport.dial import Dial, dial
from cluster_common.transport.endpoints import make_channel
from cluster_common.transport.outbox import Outbox
from driver_client import limits
from driver_client.core.asked_lease import AgentSession
from driver_client.core.reconnecting import Reconnecting
from driver_client.shell.io_thread import IoThread

_LEASE_SESSION = f"/{pb.DESCRIPTOR.services_by_name['AgentService'].full_name}/LeaseSession"


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

    def __init__(
        self, io: IoThread, agent: AgentSession, listener: SessionListener, gate: asyncio.Semaphore
    ) -> None:
        self.agent = agent
        self.address = agent.address
        self.welcomed = asyncio.Event()
        self.welcome: pb.AgentWelcome | None = None
        self.lost = False
        self.attempts = 0
        """Connections tried. After more than one, what was asked may have been lost."""
        self.trouble = ""
        """How the last connection ended."""

        self._heard_s = io.loop.time()
        self._io = io
        self._listener = listener
        self._outbox: Outbox[pb.OwnerItem] = Outbox(self._write)
        self._stream: Any = None
        self._early: list[pb.OwnerItem] | None = []
        """Asked before the first connection: leaves with its first frame."""

        self._sender: asyncio.Task[None] | None = None
        self._broke: asyncio.Future[None] | None = None
        """Of whoever waits for the last words to leave."""
        self._gate = gate
        self._is_in_gate = False
        self._task = io.keeper.start(self._run(), f"lease session {self.address}")

    def send(self, item: pb.OwnerItem) -> None:
        """Queues an item; it outlives a reconnect."""
        if self._early is not None and len(self._early) < common_limits.FRAME_ITEMS_MAX - 1:
            self._early.append(item)
            return
        self._outbox.put(item)
        self._send_soon()

    def _send_soon(self) -> None:
        """Most sessions ask once and are silent then: no task waits for what may never come."""
        if self._sender is None and len(self._outbox) and self.welcomed.is_set():
            self._sender = self._io.keeper.start(self._send(), "lease outbox")

    async def _send(self) -> None:
        try:
            await self._outbox.run()
        except (grpc.RpcError, asyncio.InvalidStateError):
            return  # the reader sees that the stream ended, and why

    async def drained(self, timeout_s: float) -> None:
        """Waits until what was queued is written, at most `timeout_s`.

        An agent that ends the session meanwhile hears nothing more.
        """
        sent = asyncio.ensure_future(self._outbox.drained())
        broke = self._broke = asyncio.get_running_loop().create_future()
        await asyncio.wait((sent, broke), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        self._broke = None
        sent.cancel()
        await asyncio.gather(sent, return_exceptions=True)

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
        try:
            await self._enter_gate()
            await self._keep_connected()
        finally:
            self._leave_gate()

    async def _enter_gate(self) -> None:
        await self._gate.acquire()
        self._is_in_gate = True

    def _leave_gate(self) -> None:
        if self._is_in_gate:
            self._is_in_gate = False
            self._gate.release()

    async def _keep_connected(self) -> None:
        loop = asyncio.get_running_loop()
        tries = Reconnecting(_now_ms(loop))
        while True:
            message = self.trouble = await self._connect_once()
            was_welcome = self.welcomed.is_set()
            self.welcomed.clear()
            self._leave_gate()
            if self.lost:
                return
            broke_ms = _now_ms(loop)
            if was_welcome:
                tries.welcome_broke(broke_ms)
            found = await dial(self.address, limits.AGENT_DIAL_S)
            delay_ms = tries.next_try_ms(broke_ms, refused=found is Dial.REFUSED)
            if delay_ms is None:
                self.lost = True
                self._listener.session_lost(self, message, refused=tries.is_refused)
                return
            await asyncio.sleep(delay_ms / 1_000)

    async def _connect_once(self) -> str:
        channel = make_channel(self.address, own_connection=True)
        self.attempts += 1
        try:
            stream: Any = channel.stream_stream(
                _LEASE_SESSION,
                request_serializer=pb.OwnerFrame.SerializeToString,
                response_deserializer=pb.LeaseFrame.FromString,
            )()
            self._stream = stream
            opening = pb.OwnerItem(open=self._listener.open_items(self))
            early, self._early = self._early or [], None
            await stream.write(pb.OwnerFrame(items=[opening, *early]))
            while True:
                frame = await stream.read()
                if frame is aio.EOF:
                    return "the agent ended the session"
                self._heard_s = self._io.loop.time()
                for item in frame.items:
                    if item.HasField("welcome"):
                        self.welcome = item.welcome
                        self.welcomed.set()
                        self._leave_gate()
                    self._listener.item_arrived(self, item)
                self._send_soon()
        except grpc.RpcError as error:
            details = getattr(error, "details", lambda: "")()
            return f"{getattr(error, 'code', lambda: '')()}: {details}"
        except asyncio.InvalidStateError as error:
            return str(error)
        finally:
            sender, self._sender = self._sender, None
            if self._broke is not None and not self._broke.done():
                self._broke.set_result(None)
            if sender is not None:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)
            await channel.close()


def _now_ms(loop: asyncio.AbstractEventLoop) -> int:
    return int(loop.time() * 1_000)
