"""The agents' streams: frames in, items out (DESIGN section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpc import aio

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.shell.core_host import CoreHost
from gcs_service.shell.node_broadcast import NodeBroadcast
from gcs_service.shell.session_hub import SessionHub

_FOR_CORE = frozenset(
    {
        "register",
        "snapshot",
        "demand",
        "bundle_answer",
        "owner_ended",
        "detached_actor",
        "ping_answer",
        "drain_answer",
        "goodbye",
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

        async def write(items: Sequence[ns.GcsItem]) -> None:
            await context.write(ns.GcsFrame(items=items))

        session = self._hub.open(write, size_of=ns.GcsItem.ByteSize)
        node_ids: dict[bytes, None] = {}

        async def receive() -> None:
            while True:
                frame = await context.read()
                if frame is aio.EOF:
                    return
                self._route(session.number, frame, node_ids)
                await self._host.breathe()

        try:
            await session.run(receive)
        finally:
            self._hub.close(session)
            for node_id in node_ids:
                self._broadcast.closed(session.number, node_id)
            if node_ids:
                core = self._host.core
                self._host.post(core.node_session_closed, session.number, list(node_ids))

    def _route(self, session: int, frame: ns.AgentFrame, node_ids: dict[bytes, None]) -> None:
        self.frames_in += 1
        self.items_in += len(frame.items)
        for_core: list[ns.AgentItem] = []
        for item in frame.items:
            kind = item.WhichOneof("item")
            if kind == "register":
                node_ids[item.node_id] = None
            elif kind == "snapshot":
                self._broadcast.snapshot(item.node_id, item.snapshot)
            if kind in _FOR_CORE:
                for_core.append(item)
        if for_core:
            self._host.post(self._host.core.node_frame, session, for_core)
