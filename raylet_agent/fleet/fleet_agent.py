"""One agent of a fleet: the real core, session and lease service; no process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from grpc import aio

from cluster_api.v1 import agent_pb2_grpc
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent import limits
from raylet_agent.core.agent import AgentCore
from raylet_agent.core.effects import EndAgent
from raylet_agent.fleet.fleet_host import FleetHost
from raylet_agent.shell.agent_servicer import AgentServicer
from raylet_agent.shell.node_session import NodeSession


class FleetAgent:
    """Core, host and session of one node.

    Args:
        connect: opens the stream to the GCS.
        server: where leases are asked, listening already; None: nowhere.
        reconnect_timeout_s: after this long without the GCS it gives up.
    """

    def __init__(
        self,
        core: AgentCore,
        host: FleetHost,
        connect: Callable[[], Any],
        server: aio.Server | None,
        reconnect_timeout_s: float,
    ) -> None:
        self.core = core
        self.host = host
        self.joined = host.joined
        self.exit_code: int | None = None
        self._server = server
        self._session = NodeSession(host, reconnect_timeout_s, self.joined.set, connect)
        self._task: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None

    @property
    def node_id(self) -> bytes:
        """Its identity."""
        return self.core.facts.node_id

    @property
    def is_running(self) -> bool:
        """Whether its session is kept."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Serves leases and dials the GCS; `joined` is set when it was taken in."""
        self.host.end_agent = self._ends_by_itself
        if self._server is not None:
            servicer = AgentServicer(self.host, self._stop_asked)
            agent_pb2_grpc.add_AgentServiceServicer_to_server(servicer, self._server)
            await self._server.start()
        self._task = asyncio.get_running_loop().create_task(self._keep_session())

    async def _keep_session(self) -> None:
        self.exit_code = await self._session.run()
        # Refused, told to go, or without a GCS for too long: nobody may wait for it.
        self.joined.set()
        await self._go()

    def _stop_asked(self, reason: str) -> None:
        self._ends_by_itself(EndAgent(t.NODE_DEATH_CAUSE_EXPECTED, reason))

    def _ends_by_itself(self, effect: EndAgent) -> None:
        """Drained, or asked to stop: what ends a real agent's process ends this agent only."""
        if self._leaving is None:
            goodbye = n.Goodbye(cause=effect.cause, message=effect.message)
            self._leaving = asyncio.get_running_loop().create_task(self._leave(goodbye))

    async def _leave(self, goodbye: n.Goodbye) -> None:
        await self.host.say_last_words(limits.LAST_WORDS_S)
        await self._session.say_goodbye(goodbye)
        await self._go()
        # The GCS closes the session of a node that said goodbye; one that hangs is not waited for.
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=limits.STOP_GRACE_S)
            self._task.cancel()

    async def _go(self) -> None:
        """No workers any more, and nobody listens: what the end of a process does."""
        self.host.close()
        if self._server is not None:
            await self._server.stop(None)

    async def say_goodbye(self) -> None:
        """Tells the GCS that the end is intended."""
        if self.is_running:
            cause = t.NODE_DEATH_CAUSE_EXPECTED
            await self._session.say_goodbye(n.Goodbye(cause=cause, message="the fleet ended"))

    async def kill(self) -> None:
        """As if its process got SIGKILL: no word to anybody, and nobody listens any more."""
        await self._go()
        for task in (self._leaving, self._task):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
