"""Dials the port of a process whose session broke. Refused: the process is gone, no need to wait.

Only a refusal says something; silence or a network error leave the decision to the deadline.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from cluster_api.v1 import core_worker_pb2 as cw
from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_common.transport import endpoints
from cluster_common.transport.dial import Dial, dial
from cluster_common.transport.task_keeper import TaskKeeper
from gcs_service import limits
from gcs_service.core.effects import ProbeDriver

if TYPE_CHECKING:
    from gcs_service.shell.core_host import CoreHost

_FIRST_INTERVAL_SECONDS = 0.01


class Reachability:
    """Running probes by node. Belongs to the loop's thread."""

    def __init__(self, tasks: TaskKeeper) -> None:
        self._tasks = tasks
        self._probes: dict[bytes, asyncio.Task[None]] = {}
        self._answered: dict[bytes, bool] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._probes)

    def probe_node(self, host: CoreHost, node_id: bytes, address: str) -> None:
        """Dials until the port refuses, the node resumes, or the window is over."""
        self.stop(node_id)
        if self._closed:
            return
        work = self._probe_node(host, node_id, address)
        self._probes[node_id] = self._tasks.start(work, f"probe {node_id.hex()}")

    def probe_driver(self, host: CoreHost, effect: ProbeDriver) -> None:
        """Ends the job when its driver's port refuses, or is silent where that counts."""
        if not self._closed:
            work = self._probe_driver(host, effect)
            self._tasks.start(work, f"probe job {effect.job_id.hex()}")

    def close(self) -> None:
        """The service ends: nobody is probed, and nobody is blamed for our end."""
        self._closed = True

    def stop(self, node_id: bytes) -> None:
        """The node resumed or died."""
        self._answered.pop(node_id, None)
        task = self._probes.pop(node_id, None)
        if task is not None:
            task.cancel()

    def answered(self, node_id: bytes) -> bool:
        """Whether the last dial of the node was answered."""
        return self._answered.get(node_id, False)

    async def _probe_node(self, host: CoreHost, node_id: bytes, address: str) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + limits.RECONNECT_REACHABLE_MS / 1_000
        interval = _FIRST_INTERVAL_SECONDS
        try:
            while loop.time() < give_up:
                found = await _dial(address)
                self._answered[node_id] = found is Dial.ANSWERED
                if found is Dial.REFUSED:
                    host.post(host.core.node_port_refused, node_id)
                    return
                await asyncio.sleep(interval)
                interval = min(interval * 2, limits.PROBE_INTERVAL_MS / 1_000)
        finally:
            if self._probes.get(node_id) is asyncio.current_task():
                del self._probes[node_id]
                self._answered.pop(node_id, None)

    async def _probe_driver(self, host: CoreHost, effect: ProbeDriver) -> None:
        if await self._is_gone(effect):
            host.post(host.core.driver_gone, effect.job_id)
        else:
            host.post(host.core.drivers.look_later, effect.job_id)

    async def _is_gone(self, effect: ProbeDriver) -> bool:
        loop = asyncio.get_running_loop()
        start = loop.time()
        while True:
            found = await _dial(effect.address)
            if found is Dial.REFUSED or not effect.silence_counts:
                return found is Dial.REFUSED
            patience_ms = limits.RECONNECT_WINDOW_MS
            if found is Dial.ANSWERED:
                if not effect.must_speak or await _speaks(effect.address):
                    return False
                patience_ms = limits.RECONNECT_REACHABLE_MS
            if loop.time() - start >= patience_ms / 1_000:
                return True
            await asyncio.sleep(limits.PROBE_INTERVAL_MS / 1_000)


async def _dial(address: str) -> Dial:
    return await dial(address, limits.PROBE_TIMEOUT_MS / 1_000)


async def _speaks(address: str) -> bool:
    """Whether the driver behind an open port runs: a stopped process still accepts."""
    async with endpoints.make_channel(address, own_connection=True) as channel:
        ask: Any = rpc.CoreWorkerServiceStub(channel).GetWorkerState
        try:
            await ask(cw.GetWorkerStateRequest(), timeout=limits.PROBE_TIMEOUT_MS / 1_000)
        except grpc.RpcError as error:
            return not endpoints.is_gone(error)
        return True
