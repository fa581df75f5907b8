"""The token over real gRPC: every kind of call, with the right, a wrong and no token."""

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from cluster_api.v1 import core_worker_pb2 as worker_pb2
from cluster_api.v1 import core_worker_pb2_grpc as worker_grpc
from cluster_common.transport import auth, endpoints

TOKEN = "the-token-of-this-test"


class Echo(worker_grpc.CoreWorkerServiceServicer):
    """One method of each kind."""

    async def GetWorkerState(self, request, context):
        return worker_pb2.GetWorkerStateResponse()

    async def FetchObject(self, request, context):
        await context.write(worker_pb2.ObjectChunk())

    async def PushLogs(self, frames, context):
        while await context.read() is not aio.EOF:
            pass
        return worker_pb2.PushLogsResponse()

    async def Connect(self, frames, context):
        while await context.read() is not aio.EOF:
            await context.write(worker_pb2.PeerReplyFrame())


@pytest.fixture(autouse=True)
def forget_token():
    yield
    auth.forget()


@pytest.fixture
async def address():
    auth.configure(TOKEN)
    server = endpoints.make_server()
    worker_grpc.add_CoreWorkerServiceServicer_to_server(Echo(), server)
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = endpoints.bind(server, "127.0.0.1", 0)
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


async def unary(stub):
    await stub.GetWorkerState(worker_pb2.GetWorkerStateRequest())


async def server_stream(stub):
    return [chunk async for chunk in stub.FetchObject(worker_pb2.FetchObjectRequest())]


async def client_stream(stub):
    call = stub.PushLogs()
    await call.done_writing()
    await call


async def both_ways(stub):
    call = stub.Connect()
    for _ in range(3):
        await call.write(worker_pb2.PeerFrame())
        assert await call.read() == worker_pb2.PeerReplyFrame()
    await call.done_writing()
    assert await call.read() is aio.EOF


async def open_stream(stub):
    assert await stub.Connect().read() is not None


KINDS = [unary, server_stream, client_stream, both_ways]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_right_token_opens_every_kind_of_call(address, kind):
    async with endpoints.make_channel(address) as channel:
        await kind(worker_grpc.CoreWorkerServiceStub(channel))


@pytest.mark.parametrize("shown", [None, "some-other-token-here"])
@pytest.mark.parametrize("kind", [unary, server_stream, client_stream, open_stream])
async def test_no_or_a_wrong_token_is_refused_with_what_to_do(address, kind, shown):
    auth.configure(shown)
    async with endpoints.make_channel(address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            await kind(worker_grpc.CoreWorkerServiceStub(channel))
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert "SHOAL_TOKEN" in caught.value.details()


async def test_the_token_goes_with_other_metadata(address):
    async with endpoints.make_channel(address) as channel:
        stub = worker_grpc.CoreWorkerServiceStub(channel)
        request = worker_pb2.GetWorkerStateRequest()
        await stub.GetWorkerState(request, metadata=(("x-other", "1"),))


async def test_the_health_service_answers_without_a_token(address):
    auth.configure(None)
    async with endpoints.make_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_without_a_token_channel_and_server_are_grpc_s_own():
    auth.configure(None)
    assert not isinstance(endpoints.make_channel("127.0.0.1:1"), auth.TokenChannel)
    assert auth.server_interceptors() == []
