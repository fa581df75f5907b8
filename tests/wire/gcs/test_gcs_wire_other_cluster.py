"""Every service refuses the calls of a process that belongs to another cluster (O-15)."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from cluster_api.v1 import gcs_pb2 as g
from cluster_common.transport.cluster_mark import MarkedChannel, reason_of
from cluster_common.transport.endpoints import make_channel
from driver_client import exceptions
from driver_client.shell.gcs_link import GcsLink
from tests.cluster.fuzzing import GCS_SERVICES

OTHER = b"x" * 16


@pytest.mark.parametrize("service", GCS_SERVICES, ids=[service.name for service in GCS_SERVICES])
async def test_every_method_refuses_a_caller_of_another_cluster(gcs, service):
    channel = MarkedChannel(make_channel(gcs.address, own_connection=True), OTHER)
    try:
        for method in service.methods:
            error = await refusal(channel, method)
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION, method.full_name
            assert OTHER.hex() in reason_of(error), method.full_name
    finally:
        await channel.close()


async def refusal(channel, method):
    kinds = {True: "stream", False: "unary"}
    shape = f"{kinds[method.client_streaming]}_{kinds[method.server_streaming]}"
    path = f"/{method.containing_service.full_name}/{method.name}"
    request = GetMessageClass(method.input_type)()
    call = getattr(channel, shape)(path, request_serializer=type(request).SerializeToString)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async with asyncio.timeout(10):
            if method.client_streaming:
                await call().read()
            elif method.server_streaming:
                await call(request).read()
            else:
                await call(request)
    return caught.value


async def test_a_link_asks_nothing_any_more_once_its_cluster_is_gone(gcs):
    link = GcsLink(gcs.address)
    told = []
    link.on_other_cluster = lambda: told.append(link.refusal)
    try:
        info = await link.call(link.nodes.GetClusterInfo, g.GetClusterInfoRequest())
        link.belong_to(info.cluster_id)
        put = g.KvPutRequest(key=b"k", value=b"v")
        assert (await link.call(link.kv.Put, put)).written
        await gcs.restart()
        assert (await link.call(link.kv.Get, g.KvGetRequest(key=b"k"))).found
        link.belong_to(OTHER)
        for _ in range(2):
            with pytest.raises(exceptions.RaySystemError, match="the cluster of this process"):
                await link.call(link.kv.Put, g.KvPutRequest(key=b"other", value=b"v"))
        assert told == [link.refusal]
        assert not (await gcs.kv.Exists(g.KvExistsRequest(key=b"other"))).exists
    finally:
        await link.channel.close()
