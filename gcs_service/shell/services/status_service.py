"""StatusService: one look at the core, then demand and meters."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from cluster_api.v1 import gcs_pb2 as g
from gcs_service.core.moment import Moment
from gcs_service.core.status_report import status_of
from gcs_service.shell.bounds_report import BoundsReport
from gcs_service.shell.core_host import CoreHost
from gcs_service.shell.demand_host import DemandHost
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.journal import Journal
from gcs_service.shell.loop_bridge import LoopBridge
from gcs_service.shell.storage.protocol import Storage, StorageError


class StatusService:
    """What operators and tests read."""

    def __init__(
        self,
        host: CoreHost,
        demand: DemandHost,
        bounds: BoundsReport,
        executors: Sequence[NamedExecutor],
        storage: Storage,
        journal: Journal,
        bridges: Sequence[LoopBridge],
        counters: Callable[[], dict[str, int]],
    ) -> None:
        self._host = host
        self._demand = demand
        self._bounds = bounds
        self._executors = executors
        self._storage = storage
        self._journal = journal
        self._bridges = bridges
        self._counters = counters

    async def get_cluster_status(self, request: g.GetStatusRequest) -> g.GetStatusResponse:
        """The cluster at a glance."""

        def from_core(at: Moment) -> g.GetStatusResponse:
            return status_of(self._host.core, at)

        response = await self._host.ask(from_core)
        response.demand.extend(await self._demand.ask(self._demand.table.entries))
        response.version = self._demand.table.version
        response.storage = self._storage.name
        response.store_problem = self._journal.problem
        response.executors.extend(_meter(executor) for executor in self._executors)
        response.executors.append(_loop_meter(self._bridges))
        for name, value in self._counters().items():
            response.counters[name] = value
        response.tables.extend(self._bounds.statuses())
        if request.verbose:
            with contextlib.suppress(
                StorageError
            ):  # a lost store has no size; `store_problem` says
                loop = asyncio.get_running_loop()
                size = await loop.run_in_executor(None, self._storage.size_bytes)
                response.tables.append(g.TableStatus(name="storage", bytes=size))
        return response


def _loop_meter(bridges: Sequence[LoopBridge]) -> g.ExecutorStatus:
    stalls = bridges[0].stalls  # one meter for all: it is the same loop
    return g.ExecutorStatus(
        name="io_loop",
        queue_length=sum(bridge.queue_length for bridge in bridges),
        lag_ms=stalls.last_ns / 1e6,
        handled=sum(bridge.handled for bridge in bridges),
        lag_max_ms=stalls.max_ns / 1e6,
        # Status is answered on the loop's own thread.
        cpu_ms=time.thread_time_ns() / 1e6,
    )


def _meter(executor: NamedExecutor) -> g.ExecutorStatus:
    return g.ExecutorStatus(
        name=executor.name,
        queue_length=executor.queue_length,
        lag_ms=executor.lag_ms,
        handled=executor.handled,
        lag_max_ms=executor.lag_max_ns / 1e6,
        cpu_ms=executor.cpu_ms,
    )
