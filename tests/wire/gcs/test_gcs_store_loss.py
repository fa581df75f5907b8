"""The store goes away: read-only with a clear sentence, then everything as before."""

from __future__ import annotations

import asyncio
import contextlib

import grpc
import pytest
from grpc import aio

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service import limits
from gcs_service.shell.storage.redis_storage import RedisStorage
from tests.redis_server import RedisServer
from tests.wire.gcs.gcs_rig import GcsRig, spec, until


@pytest.fixture
def redis_server(tmp_path):
    server = RedisServer(tmp_path / "redis")
    yield server
    server.kill()


@pytest.fixture
async def gcs(tmp_path, redis_server):
    rig = GcsRig(tmp_path)
    await rig.start(storage="redis", storage_path=redis_server.url)
    try:
        yield rig
    finally:
        await rig.close()


async def put(gcs, key):
    return await gcs.kv.Put(g.KvPutRequest(key=key, value=b"v"))


async def problem(gcs):
    return (await gcs.status.GetClusterStatus(g.GetStatusRequest(verbose=True))).store_problem


async def lose(gcs, server):
    server.kill()
    with pytest.raises(aio.AioRpcError, match="read-only"):
        await put(gcs, b"lost")
    await until(lambda: problem(gcs), "the status names the problem")


async def regain(gcs, server):
    await asyncio.to_thread(server.start)
    await until(lambda: no_problem(gcs), "the store is back")


async def no_problem(gcs):
    return not await problem(gcs)


async def test_writes_are_refused_reads_are_served_and_all_is_well_when_the_store_is_back(
    gcs, redis_server, capsys
):
    agent = await gcs.agent(1)
    await put(gcs, b"before")
    await lose(gcs, redis_server)
    with pytest.raises(aio.AioRpcError) as caught:
        await put(gcs, b"refused")
    assert caught.value.code() == grpc.StatusCode.ABORTED
    assert "read-only until the store is back" in caught.value.details()
    with pytest.raises(aio.AioRpcError, match="AddJob refused"):
        await gcs.jobs.AddJob(g.AddJobRequest(job=g.JobRecord(driver_id=b"e" * 16)))
    assert (await gcs.kv.Get(g.KvGetRequest(key=b"before"))).value == b"v"
    assert (await gcs.nodes.GetAllNodes(g.GetAllNodesRequest())).total == 1
    assert await gcs.alive(agent.node_id)
    await regain(gcs, redis_server)
    assert (await put(gcs, b"after")).written
    assert not gcs.service.failed.is_set()
    capsys.readouterr()


async def test_a_loss_shows_and_ends_while_nobody_writes(gcs, redis_server, capsys, monkeypatch):
    monkeypatch.setattr(limits, "STORE_LOOK_MS", 50)
    # Looks are planned ahead: the next one is due by the limit that was in force before.
    redis_server.kill()
    await until(lambda: problem(gcs), "the status names the problem")
    await regain(gcs, redis_server)
    redis_server.kill()
    await until(lambda: problem(gcs), "the status names the second one too")
    capsys.readouterr()


async def test_a_service_that_was_replaced_ends_while_nobody_writes(gcs, redis_server, capsys):
    other = RedisStorage(redis_server.url)
    try:
        await asyncio.wait_for(gcs.service.failed.wait(), 20)
    finally:
        other.close()
    capsys.readouterr()


async def test_a_group_that_was_asked_for_meanwhile_is_made_when_the_store_is_back(
    gcs, redis_server, capsys
):
    await gcs.agent(1)
    await lose(gcs, redis_server)
    session = gcs.group_session()
    await session.ask(create=spec(1))
    watch = asyncio.ensure_future(session.state(spec(1).placement_group_id, CREATED))
    await until(gcs.service.host.core.placement.records, "the group is known")
    assert not watch.done()
    await regain(gcs, redis_server)
    await watch
    capsys.readouterr()


async def test_what_was_acknowledged_is_there_after_store_and_service_died(
    gcs, redis_server, capsys
):
    acknowledged = []

    async def put_until_refused(first):
        for number in range(first, 10_000, 8):
            with contextlib.suppress(aio.AioRpcError):
                await put(gcs, b"%d" % number)
                acknowledged.append(b"%d" % number)
                continue
            return

    puts = [asyncio.ensure_future(put_until_refused(first)) for first in range(8)]
    await until(lambda: len(acknowledged) > 100, "some puts are acknowledged")
    redis_server.kill()
    await asyncio.gather(*puts)
    await asyncio.to_thread(redis_server.start)
    await gcs.stop()
    await gcs.start(storage="redis", storage_path=redis_server.url)
    stored = (await gcs.kv.Keys(g.KvKeysRequest())).keys
    assert set(acknowledged) <= set(stored)
    capsys.readouterr()


CREATED = pg.PLACEMENT_GROUP_STATE_CREATED
