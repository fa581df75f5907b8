"""The fleet: starts its agents, carries out commands, ends them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from cluster_common.transport.endpoints import bind, make_server
from cluster_common.transport.task_keeper import TaskKeeper
from raylet_agent.fleet import limits
from raylet_agent.fleet.building import FleetBuilder
from raylet_agent.fleet.callees import Callees
from raylet_agent.fleet.churn import churn
from raylet_agent.fleet.fleet_agent import FleetAgent
from raylet_agent.fleet.presence import Presence
from raylet_agent.fleet.settings import FleetSettings


class Fleet:
    """All agents of this process. `start` first, `close` last."""

    def __init__(self, settings: FleetSettings) -> None:
        self._settings = settings
        self._keeper = TaskKeeper("fleet")
        self._callees = Callees()
        self._callee_server = make_server()
        self._presence = None if settings.leases else Presence()
        port = 0 if self._presence is None else self._presence.port
        self._builder = FleetBuilder(settings, self._keeper, self._callees, port)
        self.agents: list[FleetAgent] = []

    async def start(self) -> float:
        """Returns when all are in, after how many seconds.

        Raises:
            RuntimeError: one was refused, or the GCS cannot be reached.
            TimeoutError: some were not taken in in time.
        """
        started = time.perf_counter()
        if self._presence is not None:
            self._presence.open()
        self._callee_server.add_generic_rpc_handlers((self._callees.handler(),))
        self._callees.address = f"127.0.0.1:{bind(self._callee_server, '127.0.0.1', 0)}"
        await self._callee_server.start()
        async with asyncio.timeout(limits.JOIN_TIMEOUT_S):
            for first in range(0, self._settings.nodes, limits.JOINING_MAX):
                last = min(first + limits.JOINING_MAX, self._settings.nodes)
                await self._join(range(first, last))
        return time.perf_counter() - started

    async def _join(self, indexes: range) -> None:
        group = [self._builder.agent(index) for index in indexes]
        self.agents += group
        for agent in group:
            await agent.start()
        for agent in group:
            await agent.joined.wait()
            if agent.exit_code is not None:
                raise RuntimeError(
                    f"an agent ended with exit code {agent.exit_code} before it was taken in"
                )

    async def close(self) -> None:
        """Says goodbye for all, then ends them."""
        running = [agent for agent in self.agents if agent.is_running]
        await asyncio.gather(*(agent.say_goodbye() for agent in running))
        if self._presence is not None:
            self._presence.close()
        await asyncio.gather(*(agent.kill() for agent in self.agents))
        await self._callee_server.stop(None)
        await asyncio.gather(*(channel.close() for channel in self._builder.channels))
        await self._keeper.close()

    # ---- commands

    async def command(self, operation: str, arguments: dict[str, Any]) -> Any:
        """Carries out one command; the answer is plain data.

        Raises:
            ValueError: unknown command or a bad argument; says what there is.
        """
        handler = {
            "status": self._status,
            "nodes": self._nodes,
            "churn": self._churn,
            "kill": self._kill,
        }.get(operation)
        if handler is None:
            raise ValueError(f"unknown command {operation!r}: status, nodes, churn, kill")
        return await handler(**arguments)

    async def _status(self) -> dict[str, int]:
        running = [agent for agent in self.agents if agent.is_running]
        return {
            "nodes": len(self.agents),
            "running": len(running),
            "workers": len(self._callees),
            "bundles": sum(1 for agent in running for _ in agent.core.ledger.bundles.rows()),
            "calls": self._callees.calls,
            "leases_granted": self._counted("leases_granted"),
            "leases_rejected": self._counted("leases_rejected"),
            "prepares": self._builder.prepares.answered,
            "prepares_rejected": self._builder.prepares.rejected,
            **self._builder.traffic.as_dict(),
        }

    def _counted(self, event: str) -> int:
        return sum(agent.core.leasing.counters.get(event, 0) for agent in self.agents)

    async def _nodes(self) -> list[str]:
        return [agent.node_id.hex() for agent in self.agents]

    async def _churn(self, times: int, window_s: float) -> dict[str, float]:
        return msgspec.to_builtins(await churn(self.agents, times, window_s))

    async def _kill(self, node_id: str) -> None:
        for agent in self.agents:
            if agent.node_id.hex() == node_id:
                await agent.kill()
                return
        raise ValueError(f"no agent of this fleet has the node id {node_id!r}")
