"""The agents' streams: frames in, items out (DESIGN section 7). A stream may carry many nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpc import aio

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.shell.core_host import CoreHost
from gcs_service.shell.framed import framed
from gcs_service.shell.node_broadcast import NodeBroadcast
from gcs_service.shell.session_hub import Session, SessionHub

_FOR_CORE = frozenset(
    {
        "register",
        "snapshot",
        "demand",
        "bundle_answer",
        "owner_ended",
        "detached_actor",
        "ping_answer",
        "ping",
        "drain_answer",
        "goodbye",
        "node_question",
    }
)


class NodeSessionService:
    """Routes each item to the executor that owns its subject."""

    def __init__(self, host: CoreHost, hub: SessionHub, broadcast: NodeBroadcast) -> None:
        self._host = host
        self._hub = hub
        self._broadcast = broadcast
        self.frames_in = 0
        self.items_in = 0

    async def connect(self, _requests: object, context: aio.ServicerContext[Any, Any]) -> None:
        """One stream, open as long as the agent lives."""

        async def write(items: Sequence[bytes]) -> None:
            await context.write(b"".join(items))

        session = self._hub.open(write, size_of=len)

        async def receive() -> None:
            while True:
                frame = await context.read()
                if frame is aio.EOF:
                    return
                self._route(session, frame)
                await self._host.breathe()

        try:
            await session.run(receive)
        finally:
            self._hub.close(session)
            self._ended(session.number, list(session.nodes))

    def _ended(self, session: int, node_ids: list[bytes]) -> None:
        for node_id in node_ids:
            self._broadcast.closed(session, node_id)
        if node_ids:
            self._host.post(self._host.core.node_session_closed, session, node_ids)

    def _route(self, session: Session, frame: ns.AgentFrame) -> None:
        self.frames_in += 1
        self.items_in += len(frame.items)
        for_core: list[ns.AgentItem] = []
        for item in frame.items:
            kind = item.WhichOneof("item")
            if kind == "register":
                known = session.nodes.get(item.node_id, 0)
                session.nodes[item.node_id] = max(known, item.register.incarnation)
            elif kind == "ping":
                self._answer(session, item)
            elif kind == "session_left":
                self._left(session, item.node_id, for_core)
                for_core = []
            elif kind == "snapshot":
                self._broadcast.snapshot(item.node_id, item.snapshot)
            if kind in _FOR_CORE:
                for_core.append(item)
        if for_core:
            self._host.post(self._host.core.node_frame, session.number, for_core)

    def _answer(self, session: Session, item: ns.AgentItem) -> None:
        """A node behind a relay wants to know whether it is heard."""
        if item.node_id in session.nodes:
            answer = ns.PingAnswer(nonce=item.ping.nonce)
            told = framed(ns.GcsItem(node_id=item.node_id, ping_answer=answer))
            self._hub.tell(session.number, told, ("ping_answer", item.node_id))

    def _left(self, session: Session, node_id: bytes, before: list[ns.AgentItem]) -> None:
        """One of several nodes of a stream is gone; what was said before counts before."""
        if before:
            self._host.post(self._host.core.node_frame, session.number, before)
        if node_id in session.nodes:
            del session.nodes[node_id]
            self._ended(session.number, [node_id])
