"""What one server takes: message sizes, calls open at once."""

import grpc
import pytest
from grpc import aio

from cluster_api.v1 import core_worker_pb2 as worker_pb2
from cluster_api.v1 import core_worker_pb2_grpc as worker_grpc
from cluster_common import limits
from cluster_common.transport import endpoints

UNARY = "/cluster_api.v1.CoreWorkerService/GetWorkerState"
MESSAGE_BYTES_MAX = 1_000
CALLS_OPEN_MAX = 2


class Echo(worker_grpc.CoreWorkerServiceServicer):
    async def GetWorkerState(self, request, context):
        return worker_pb2.GetWorkerStateResponse()

    async def Connect(self, frames, context):
        await context.write(worker_pb2.PeerReplyFrame())
        while await context.read() is not aio.EOF:
            pass


@pytest.fixture
async def channel():
    server = endpoints.make_server(
        message_bytes_max=MESSAGE_BYTES_MAX, calls_open_max=CALLS_OPEN_MAX
    )
    worker_grpc.add_CoreWorkerServiceServicer_to_server(Echo(), server)
    port = endpoints.bind(server, "127.0.0.1", 0)
    await server.start()
    made = endpoints.make_channel(f"127.0.0.1:{port}")
    yield made
    await made.close()
    await server.stop(0)


async def code_of(call):
    with pytest.raises(grpc.RpcError) as caught:
        await call
    return caught.value.code()


async def test_a_larger_message_is_refused_before_it_is_read(channel):
    large = channel.unary_unary(UNARY)(b"\x0a" * (MESSAGE_BYTES_MAX + 1), timeout=5)
    assert await code_of(large) == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_more_open_calls_are_refused_and_free_again_when_one_ends(channel):
    stub = worker_grpc.CoreWorkerServiceStub(channel)
    streams = [stub.Connect() for _ in range(CALLS_OPEN_MAX)]
    for stream in streams:
        assert await stream.read() == worker_pb2.PeerReplyFrame()
    request = worker_pb2.GetWorkerStateRequest()
    assert await code_of(stub.GetWorkerState(request)) == grpc.StatusCode.RESOURCE_EXHAUSTED
    await streams[0].done_writing()
    assert await streams[0].read() is aio.EOF
    await stub.GetWorkerState(request)
    streams[1].cancel()


async def test_a_frame_that_cannot_be_read_fails_its_call_only_and_fills_no_log(channel, capfd):
    bad = channel.unary_unary(UNARY)(b"\xff" * 20, timeout=5)
    assert await code_of(bad) == grpc.StatusCode.UNKNOWN
    await worker_grpc.CoreWorkerServiceStub(channel).GetWorkerState(
        worker_pb2.GetWorkerStateRequest()
    )
    assert "DecodeError" not in capfd.readouterr().err


def test_services_without_user_values_take_smaller_messages():
    assert limits.CONTROL_MESSAGE_BYTES_MAX < limits.GRPC_MESSAGE_BYTES_MAX
