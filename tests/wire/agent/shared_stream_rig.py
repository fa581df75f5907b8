"""A GCS that notes every frame of its streams, and nodes that speak over one of them."""

from __future__ import annotations

import asyncio

import grpc
from grpc import aio

from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import node_session_pb2_grpc
from cluster_common.transport.endpoints import bind, make_channel, make_server

WAIT_S = 15.0
NODES = [bytes([number]) * 16 for number in range(1, 6)]


async def until(condition, what):
    """Polls a condition; the deadline names what was missing."""
    try:
        async with asyncio.timeout(WAIT_S):
            while not condition():  # noqa: ASYNC110 - streams tell no event
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"not within {WAIT_S} s: {what}") from None


class NotingGcs(node_session_pb2_grpc.NodeSessionServiceServicer):
    """Welcomes every node but those in `refused`; `streams` has what came, frame by frame."""

    def __init__(self):
        self.streams = []
        self.contexts = []
        self.tasks = []
        self.ended = 0
        self.refused = set()
        self.welcomes = True
        self.answers_pings = True
        self.ping_interval_ms = 30_000
        self.one_write = asyncio.Lock()

    async def Connect(self, _requests, context):
        frames = []
        self.streams.append(frames)
        self.contexts.append(context)
        self.tasks.append(asyncio.current_task())
        try:
            while (frame := await context.read()) is not aio.EOF:
                frames.append(frame)
                for item in frame.items:
                    await self._answer(context, item)
        except asyncio.CancelledError:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped by the test")
        finally:
            self.ended += 1

    async def _answer(self, context, item):
        kind = item.WhichOneof("item")
        if kind == "register" and item.node_id in self.refused:
            refused = n.Refused(reason="declared_dead", message="a test refuses it")
            await self.tell(n.GcsItem(node_id=item.node_id, refused=refused), context)
        elif kind == "register" and self.welcomes:
            options = {"ping_interval_ms": self.ping_interval_ms}
            told = welcome(item.node_id, item.register.incarnation, **options)
            await self.tell(told, context)
        elif kind == "ping" and self.answers_pings:
            answer = n.PingAnswer(nonce=item.ping.nonce)
            await self.tell(n.GcsItem(node_id=item.node_id, ping_answer=answer), context)

    async def tell(self, item, context=None):
        async with self.one_write:  # gRPC takes one at a time
            await (context or self.contexts[-1]).write(n.GcsFrame(items=[item]))

    def drop(self):
        """Breaks the newest stream."""
        self.tasks[-1].cancel()

    def items(self, kind=None, node_id=None):
        """What came over all streams, in order."""
        return [
            item
            for frames in self.streams
            for frame in frames
            for item in frame.items
            if (kind is None or item.WhichOneof("item") == kind)
            and (node_id is None or item.node_id == node_id)
        ]


class SharedRig:
    """Servers and channels of one test."""

    def __init__(self):
        self.gcs = NotingGcs()
        self.address = ""
        self._servers = []
        self._channels = []

    async def start(self):
        self.address = await self.serve(self.gcs)

    async def serve(self, servicer, port=0):
        server = make_server()
        node_session_pb2_grpc.add_NodeSessionServiceServicer_to_server(servicer, server)
        bound = bind(server, "127.0.0.1", port)
        await server.start()
        self._servers.append(server)
        return f"127.0.0.1:{bound}"

    def stub(self, address):
        channel = make_channel(address, own_connection=True)
        self._channels.append(channel)
        return node_session_pb2_grpc.NodeSessionServiceStub(channel)

    async def close(self):
        for channel in self._channels:
            await channel.close()
        for server in self._servers:
            await server.stop(None)


def welcome(node_id, incarnation, **fields):
    body = n.Welcome(cluster_id=b"c" * 16, epoch=1, incarnation=incarnation, **fields)
    return n.GcsItem(node_id=node_id, welcome=body)


def frame(node_id, **item):
    return n.AgentFrame(items=[n.AgentItem(node_id=node_id, **item)])


def register(node_id, incarnation=1, *, scheduler=False):
    body = n.RegisterNode(incarnation=incarnation, address="x:1", is_scheduler=scheduler)
    return frame(node_id, register=body)


def view(node_id):
    return n.GcsItem(view=n.NodeView(node_id=node_id, alive=True))


async def read(call):
    """What comes next on a call, as its kinds."""
    found = await asyncio.wait_for(call.read(), WAIT_S)
    return None if found is aio.EOF else [item.WhichOneof("item") for item in found.items]


async def joined(stream, node_id, incarnation=1, **options):
    """A node that was welcomed over a shared stream."""
    call = stream.connect()
    await call.write(register(node_id, incarnation, **options))
    assert await read(call) == ["welcome"]
    return call
