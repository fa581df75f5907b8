"""Owners of an agent that joins a cluster, and of one that its cluster does not want any more."""

from __future__ import annotations

import asyncio

from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent import exit_codes
from tests.wire.agent.agent_rig import Owner


async def test_who_comes_before_the_agent_heard_that_it_joined_waits_for_that(rig):
    rig.gcs.may_welcome.clear()
    await rig.start(wait=False)
    registration = await asyncio.wait_for(rig.gcs.registrations.get(), 15)
    owner = Owner(registration.address)
    try:
        opened = asyncio.ensure_future(owner.open())
        # An answer of the same process, asked for later: the session was read before it.
        await owner.state()
        await owner.state()
        assert not opened.done()
        rig.gcs.may_welcome.set()
        assert (await opened).cluster_id
    finally:
        await owner.close()


async def test_owners_hear_that_the_cluster_refused_their_agent_and_why(rig):
    await rig.start()
    owner = await rig.owner()
    rig.gcs.refusal = n.Refused(reason="other_cluster", message="this is cluster 00")
    rig.gcs.drop()
    node = (await owner.next("node_change")).node
    assert (node.state, node.death_cause) == (t.NODE_STATE_DEAD, t.NODE_DEATH_CAUSE_REFUSED)
    assert "other_cluster: this is cluster 00" in node.death_message
    assert await rig.ended() == exit_codes.REFUSED
    assert "was not started" not in (rig.folder / "agent.log").read_text()
