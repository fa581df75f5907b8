"""Dials the port of a process whose session broke. Refused: the process is gone, no need to wait.

Only a refusal says something; silence or a network error leave the decision to the deadline.
"""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING

from cluster_common.transport import faults
from cluster_common.transport.task_keeper import TaskKeeper
from gcs_service import limits
from gcs_service.core.effects import ProbeDriver

if TYPE_CHECKING:
    from gcs_service.shell.core_host import CoreHost

_FIRST_INTERVAL_SECONDS = 0.01


class Dial(enum.Enum):
    """What one dial of a port found."""

    ANSWERED = "answered"
    REFUSED = "refused"
    SILENT = "silent"


class Reachability:
    """Running probes by node. Belongs to the loop's thread."""

    def __init__(self, tasks: TaskKeeper) -> None:
        self._tasks = tasks
        self._probes: dict[bytes, asyncio.Task[None]] = {}
        self._answered: dict[bytes, bool] = {}
        self._closed = False

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
                found = await dial(address)
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
        loop = asyncio.get_running_loop()
        give_up = loop.time() + limits.RECONNECT_WINDOW_MS / 1_000
        found = await dial(effect.address)
        while effect.silence_counts and found is Dial.SILENT and loop.time() < give_up:
            await asyncio.sleep(limits.PROBE_INTERVAL_MS / 1_000)
            found = await dial(effect.address)
        if found is Dial.REFUSED or (effect.silence_counts and found is Dial.SILENT):
            host.post(host.core.driver_gone, effect.job_id)
        else:
            host.post(host.core.drivers.look_later, effect.job_id)


async def dial(address: str) -> Dial:
    """Opens and closes one TCP connection to `host:port`."""
    name, _, port = address.rpartition(":")
    if faults.cuts_address(address):
        await asyncio.sleep(limits.PROBE_TIMEOUT_MS / 1_000)
        return Dial.SILENT
    try:
        opening = asyncio.open_connection(name, int(port))
        _, writer = await asyncio.wait_for(opening, limits.PROBE_TIMEOUT_MS / 1_000)
    except ConnectionRefusedError:
        return Dial.REFUSED
    except (OSError, TimeoutError, ValueError):
        return Dial.SILENT
    writer.transport.abort()
    return Dial.ANSWERED
