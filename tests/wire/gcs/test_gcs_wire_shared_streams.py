"""Many nodes on one stream against the real GCS: what concerns one of them concerns no other."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
import pytest
from grpc import aio

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import node_session_pb2_grpc
from cluster_api.v1 import types_pb2 as t
from cluster_common.transport.endpoints import make_channel
from tests.wire.gcs.gcs_rig import DRIVER, WAIT_S, frame, until

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
NOBODY = "127.0.0.1:1"
"""No agent listens there: whose session breaks is gone at once."""


class SharedStream:
    """One stream to the GCS; `got` has its items in order, `frames` counts its messages."""

    def __init__(self, gcs):
        self._channel = make_channel(gcs.address, own_connection=True)
        self.call = node_session_pb2_grpc.NodeSessionServiceStub(self._channel).Connect()
        self.got = []
        self.frames = 0
        self.has_ended = False
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self):
        with suppress(asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
            while (read := await self.call.read()) is not aio.EOF:
                self.frames += 1
                self.got += read.items
            self.has_ended = True

    async def register(self, node_id, address, incarnation=1, **fields):
        total = t.ResourceSet(amounts={"CPU": 40_000})
        body = ns.RegisterNode(incarnation=incarnation, address=address, total=total, **fields)
        await self.say(node_id, register=body)

    async def join(self, node_id, address, incarnation=1, **fields):
        await self.register(node_id, address, incarnation, **fields)
        await until(
            lambda: incarnation in [w.incarnation for w in self.items("welcome", node_id)],
            "it was welcomed",
        )

    async def say(self, node_id, **item):
        await asyncio.wait_for(self.call.write(frame(node_id, **item)), WAIT_S)

    def items(self, kind, node_id=None):
        return [
            getattr(item, kind)
            for item in self.got
            if item.WhichOneof("item") == kind and node_id in (None, item.node_id)
        ]

    async def close(self):
        self.call.cancel()
        await self._task
        await self._channel.close()


@pytest.fixture
async def ports():
    """Addresses of agents that answer a dial, by node."""
    servers = {}
    for node_id in (A, B, C):
        servers[node_id] = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    addresses = {}
    for node_id, server in servers.items():
        host, port = server.sockets[0].getsockname()
        addresses[node_id] = f"{host}:{port}"
    yield addresses
    for server in servers.values():
        server.close()


@pytest.fixture
async def shared(gcs):
    stream = SharedStream(gcs)
    yield stream
    await stream.close()


async def dead(gcs, node_id):
    return not await gcs.alive(node_id)


async def test_a_node_that_left_is_the_only_one_that_is_dead(gcs, shared, ports):
    await shared.join(A, NOBODY)
    await shared.join(B, ports[B])
    await shared.say(A, session_left=ns.SessionLeft())
    await until(lambda: dead(gcs, A), "the process of A is gone")
    assert await gcs.alive(B)
    await shared.say(B, ping=ns.Ping(nonce=4))
    await until(lambda: shared.items("ping_answer", B), "B is heard")
    assert shared.items("ping_answer")[0].nonce == 4


async def test_a_node_that_left_resumes_over_the_same_stream(gcs, shared, ports):
    await shared.join(A, ports[A])
    await shared.join(B, NOBODY)
    await shared.say(A, session_left=ns.SessionLeft())
    await shared.join(A, NOBODY, 2)
    assert await gcs.alive(A)
    await shared.close()
    for node_id in (A, B):
        await until(lambda node_id=node_id: dead(gcs, node_id), "it went with the stream")


async def test_a_node_that_moved_is_no_longer_ended_by_the_shared_stream(gcs, shared, ports):
    await shared.join(A, ports[A])
    await shared.join(B, NOBODY)
    own = SharedStream(gcs)
    try:
        await own.join(A, ports[A], 2)
        await shared.close()
        await until(lambda: dead(gcs, B), "B went with its stream")
        assert await gcs.alive(A)
        await own.say(A, ping=ns.Ping(nonce=1))
        await until(lambda: own.items("ping_answer", A), "A is heard over its own stream")
    finally:
        await own.close()


async def test_a_node_that_moves_there_and_back_breaks_with_the_stream_it_is_on(gcs, shared):
    """The order to leave a stream must not take what registered over it later."""
    await shared.join(A, NOBODY)
    await shared.join(B, NOBODY)
    own = SharedStream(gcs)
    try:
        await own.register(A, NOBODY, 2)
        await shared.join(A, NOBODY, 3)
    finally:
        await own.close()
    assert await gcs.alive(A)
    await shared.close()
    for node_id in (A, B):
        await until(lambda node_id=node_id: dead(gcs, node_id), "its break was seen")


async def test_a_refused_node_leaves_the_others_alone(gcs, shared, ports):
    await shared.join(A, ports[A])
    await shared.register(B, ports[B], cluster_id=b"o" * 16)
    await until(lambda: shared.items("refused", B), "it was refused")
    await shared.say(A, ping=ns.Ping(nonce=1))
    await until(lambda: shared.items("ping_answer", A), "A goes on")
    assert not shared.has_ended


async def test_a_stream_ends_when_its_last_node_is_refused(shared):
    await shared.register(A, NOBODY, cluster_id=b"o" * 16)
    await until(lambda: shared.has_ended, "the stream ended")
    assert shared.items("refused", A)[0].reason == "other_cluster"


async def test_a_goodbye_ends_its_node_and_the_stream_carries_on(gcs, shared, ports):
    await shared.join(A, ports[A])
    await shared.join(B, ports[B])
    await shared.say(A, goodbye=ns.Goodbye(message="bye"))
    await until(lambda: dead(gcs, A), "A is dead")
    await until(lambda: shared.items("refused", A), "it is told")
    assert await gcs.alive(B)
    assert not shared.has_ended


async def test_news_for_all_come_once_however_many_nodes_share_the_stream(gcs, shared, ports):
    for node_id in (A, B, C):
        await shared.join(node_id, ports[node_id])
    await gcs.jobs.AddJob(g.AddJobRequest(job=g.JobRecord(driver_id=DRIVER)))
    await shared.say(A, owner_ended=ns.OwnerEnded(owner_id=DRIVER, is_driver=True))
    await until(lambda: shared.items("owners_died"), "the news came")
    await shared.say(A, ping=ns.Ping(nonce=1))
    await until(lambda: shared.items("ping_answer"), "what was before came before")
    assert [item.node_id for item in shared.got if item.HasField("owners_died")] == [b""]


async def test_items_of_a_node_that_left_are_void(gcs, shared, ports):
    await shared.join(A, ports[A])
    await shared.join(B, ports[B])
    items = [
        ns.AgentItem(node_id=A, session_left=ns.SessionLeft()),
        ns.AgentItem(node_id=A, goodbye=ns.Goodbye(message="too late")),
        ns.AgentItem(node_id=B, ping=ns.Ping(nonce=1)),
    ]
    await shared.call.write(ns.AgentFrame(items=items))
    await until(lambda: shared.items("ping_answer", B), "the frame was handled")
    await gcs.nodes.GetAllNodes(g.GetAllNodesRequest())
    assert await gcs.alive(A)


async def test_leaving_and_registering_in_one_frame_keeps_its_order(gcs, shared, ports):
    await shared.join(B, ports[B])
    register = ns.RegisterNode(incarnation=1, address=ports[A])
    again = ns.RegisterNode(incarnation=2, address=ports[A])
    items = [
        ns.AgentItem(node_id=A, register=register),
        ns.AgentItem(node_id=A, session_left=ns.SessionLeft()),
        ns.AgentItem(node_id=A, register=again),
    ]
    await shared.call.write(ns.AgentFrame(items=items))
    await until(lambda: len(shared.items("welcome", A)) == 2, "both were welcomed")
    assert [w.incarnation for w in shared.items("welcome", A)] == [1, 2]
    await shared.say(A, ping=ns.Ping(nonce=1))
    await until(lambda: shared.items("ping_answer", A), "it is heard")
    assert await gcs.alive(A)
