"""Streams to one address share a connection, for as long as one of them is open."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc import aio

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_common.transport.endpoints import bind, make_server
from driver_client.shell.peer_channels import PeerChannels


class Worker(rpc.CoreWorkerServiceServicer):
    """Answers each frame with the address of the caller's connection."""

    async def Connect(self, _requests, context):
        while await context.read() is not aio.EOF:
            refused = pb.PeerRefused(message=context.peer())
            await context.write(pb.PeerReplyFrame(refused=refused))


@pytest.fixture
async def worker():
    """Two addresses of one server."""
    async with served() as addresses:
        yield addresses


@asynccontextmanager
async def served():
    server = make_server()
    rpc.add_CoreWorkerServiceServicer_to_server(Worker(), server)
    addresses = [f"127.0.0.1:{bind(server, '127.0.0.1', 0)}" for _ in range(2)]
    await server.start()
    try:
        yield addresses
    finally:
        await server.stop(None)


async def connection_of(stream):
    await stream.write(pb.PeerFrame())
    return (await stream.read()).refused.message


async def test_streams_to_one_address_share_a_connection(worker):
    channels = PeerChannels()
    streams = [channels.open(worker[0]) for _ in range(3)]
    assert len({await connection_of(stream) for stream in streams}) == 1
    other = channels.open(worker[1])
    assert await connection_of(other) != await connection_of(streams[0])
    assert len(channels) == 2
    for address in (worker[0], worker[0], worker[0], worker[1]):
        await channels.closed(address)
    assert len(channels) == 0


async def test_the_last_stream_takes_the_connection_with_it_and_no_other_does(worker):
    channels = PeerChannels()
    first, second = (channels.open(worker[0]) for _ in range(2))
    before = await connection_of(first)
    first.cancel()
    await channels.closed(worker[0])
    assert await connection_of(second) == before
    await channels.closed(worker[0])
    assert len(channels) == 0
    assert await second.code() == grpc.StatusCode.CANCELLED
    again = channels.open(worker[0])
    assert await connection_of(again) != before
    await channels.closed(worker[0])


async def test_a_stream_opened_while_the_last_one_closes_gets_a_connection_of_its_own(worker):
    channels = PeerChannels()
    before = await connection_of(channels.open(worker[0]))
    closing = asyncio.create_task(channels.closed(worker[0]))
    await asyncio.sleep(0)
    stream = channels.open(worker[0])
    assert await connection_of(stream) != before
    await closing
    assert len(channels) == 1
    await channels.closed(worker[0])


async def test_an_address_where_nobody_listens_harms_no_other():
    channels = PeerChannels()
    async with served() as (here, there):
        pass
    gone = channels.open(there)
    async with served() as (here, _):
        with pytest.raises(aio.AioRpcError) as caught:
            await connection_of(gone)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        await channels.closed(there)
        assert (await connection_of(channels.open(here))).startswith("ipv4:127.0.0.1:")
        await channels.closed(here)
