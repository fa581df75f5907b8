"""The node session against a GCS in this process, with a host that only looks like the real one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from cluster_common.transport.task_keeper import TaskKeeper
from raylet_agent.shell.node_session import NodeSession
from tests.unit.raylet_agent.agent_world import World


async def test_a_session_broken_from_here_is_opened_again(rig):
    from cluster_api.v1 import node_session_pb2_grpc

    address = await rig._serve(
        node_session_pb2_grpc.add_NodeSessionServiceServicer_to_server, rig.gcs
    )
    core = World().core
    core.facts.gcs_address = address
    core.facts.cluster_id = b""
    host = SimpleNamespace(core=core, gcs=None, run_effects=core.drain)
    keeper = TaskKeeper("test")
    joined = asyncio.Queue()
    session = NodeSession(host, 5.0, lambda: joined.put_nowait(None))
    keeper.start(session.run(), "session")
    try:
        await asyncio.wait_for(joined.get(), 10)
        host.break_gcs()
        await asyncio.wait_for(joined.get(), 10)
        first = await rig.gcs.registrations.get()
        second = await rig.gcs.registrations.get()
        assert (first.incarnation, second.incarnation) == (1, 2)
    finally:
        await keeper.close()
