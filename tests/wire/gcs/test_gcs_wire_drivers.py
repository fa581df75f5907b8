"""Drivers that no agent can vouch for: the service looks at their own ports."""

from __future__ import annotations

import asyncio

import pytest

from cluster_api.v1 import core_worker_pb2 as cw
from cluster_api.v1 import core_worker_pb2_grpc
from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_common.transport.endpoints import bind, make_server
from gcs_service import limits
from tests.wire.gcs.gcs_rig import DRIVER, until

SUSPECTED = ns.OwnerEnded(owner_id=DRIVER, is_driver=True, suspected=True, message="its way broke")


class Driver(core_worker_pb2_grpc.CoreWorkerServiceServicer):
    """One that runs, and counts how often it was asked."""

    def __init__(self):
        self.asked = 0

    async def GetWorkerState(self, _request, _context):
        self.asked += 1
        return cw.GetWorkerStateResponse(worker_id=DRIVER)


@pytest.fixture
async def port():
    """An open port whose process never says anything; and the dials it got."""
    dials = asyncio.Queue()

    async def dialled(_reader, writer):
        dials.put_nowait(None)
        writer.close()

    server = await asyncio.start_server(dialled, "127.0.0.1", 0)
    server.dials = dials
    yield server
    server.close()
    await server.wait_closed()


async def begin_job(gcs, number):
    job = g.JobRecord(driver_id=DRIVER, driver_address=f"127.0.0.1:{number}")
    await gcs.jobs.AddJob(g.AddJobRequest(job=job))


async def is_dead(gcs):
    rows = (await gcs.jobs.GetAllJobs(g.GetAllJobsRequest())).jobs
    return rows[0].is_dead


async def test_the_job_of_a_driver_ends_when_nobody_listens_there_any_more(gcs, port, monkeypatch):
    monkeypatch.setattr(limits, "DRIVER_PROBE_INTERVAL_MS", 20)
    await begin_job(gcs, port.sockets[0].getsockname()[1])
    async with asyncio.timeout(10):
        await port.dials.get()
        await port.dials.get()
    assert not await is_dead(gcs)
    port.close()
    await port.wait_closed()
    await until(lambda: is_dead(gcs), "the end of the job")


async def test_a_driver_its_agent_does_not_reach_lives_when_it_answers_the_service(gcs):
    driver, server = Driver(), make_server()
    core_worker_pb2_grpc.add_CoreWorkerServiceServicer_to_server(driver, server)
    number = bind(server, "127.0.0.1", 0)
    await server.start()
    agent = await gcs.agent(1)
    await begin_job(gcs, number)
    for times in (1, 2):
        await agent.say(owner_ended=SUSPECTED)
        await until(lambda times=times: driver.asked == times, "the driver is asked")
    assert not await is_dead(gcs)
    await server.stop(None)
    await agent.say(owner_ended=SUSPECTED)
    await until(lambda: is_dead(gcs), "the end of the job whose driver went")
    await until(lambda: agent.items("owners_died"), "its agent hears of it")


async def test_an_open_port_without_words_saves_a_driver_for_a_while_only(gcs, port, monkeypatch):
    """A stopped process accepts connections still."""
    monkeypatch.setattr(limits, "RECONNECT_REACHABLE_MS", 600)
    agent = await gcs.agent(1)
    await begin_job(gcs, port.sockets[0].getsockname()[1])
    await agent.say(owner_ended=SUSPECTED)
    async with asyncio.timeout(10):
        await port.dials.get()
    assert not await is_dead(gcs)
    await until(lambda: is_dead(gcs), "the end of the job")
