"""The agent that answers for a driver's life: which one, and the next one when it dies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from cluster_api.v1 import gcs_pb2 as gcs
from cluster_api.v1 import types_pb2 as t
from driver_client import exceptions, limits
from driver_client.shell.runtime import Runtime


def home_node(nodes: Iterable[t.NodeRecord]) -> t.NodeRecord | None:
    """The agent on this machine, the head's first; else the head's; else any."""
    alive = [node for node in nodes if node.state == t.NODE_STATE_ALIVE]
    if not alive:
        return None
    here = socket.gethostname()
    return min(alive, key=lambda n: (n.hostname != here, not n.is_head, n.start_time_ms))


def follow_home(runtime: Runtime) -> None:
    """When the home agent dies, the driver goes on with another one. I/O thread."""

    def lost(message: str) -> None:
        runtime.io.keeper.start(_next_home(runtime, message), "next home")

    runtime.home_lost = lost


async def _next_home(runtime: Runtime, message: str) -> None:
    leases = runtime.leases()
    gone = leases.home_address
    try:
        node = await _another_node(runtime, gone)
    except exceptions.RayError as error:
        leases.homeless(f"the agent at {gone} is gone ({message}), and {error}")
        return
    if node is None:
        leases.homeless(f"the agent at {gone} is gone ({message}) and the cluster has no other")
        return
    runtime.facts.agent_address = node.address
    runtime.facts.node_id = node.node_id
    runtime.facts.labels = dict(node.labels)
    leases.move_home(node.address)
    await runtime.environments.uploads.home_moved()


async def _another_node(runtime: Runtime, gone: str) -> t.NodeRecord | None:
    """One that is not at the address `gone`; None: none came within `HOME_WAIT_S`.

    Raises:
        exceptions.RayError: the GCS cannot be asked.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.HOME_WAIT_S
    while loop.time() < deadline and not runtime.closed:
        link = runtime.gcs()
        request = gcs.GetAllNodesRequest(alive_only=True)
        answer = await link.call(link.nodes.GetAllNodes, request)
        node = home_node(n for n in answer.nodes if n.address != gone)
        if node is not None:
            return node
        await asyncio.sleep(limits.RECONNECT_DELAY_MAX_S)
    return None
