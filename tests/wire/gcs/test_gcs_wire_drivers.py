"""A driver that no agent ever watched: its job ends when its own port refuses."""

from __future__ import annotations

import asyncio

from cluster_api.v1 import gcs_pb2 as g
from gcs_service import limits
from tests.wire.gcs.gcs_rig import DRIVER, until


async def test_the_job_of_a_driver_ends_when_nobody_listens_there_any_more(gcs, monkeypatch):
    monkeypatch.setattr(limits, "DRIVER_PROBE_INTERVAL_MS", 20)
    dials = asyncio.Queue()

    async def dialled(_reader, writer):
        dials.put_nowait(None)
        writer.close()

    driver = await asyncio.start_server(dialled, "127.0.0.1", 0)
    address = f"127.0.0.1:{driver.sockets[0].getsockname()[1]}"
    job = g.JobRecord(driver_id=DRIVER, driver_address=address)
    await gcs.jobs.AddJob(g.AddJobRequest(job=job))

    async def is_dead():
        rows = (await gcs.jobs.GetAllJobs(g.GetAllJobsRequest())).jobs
        return rows[0].is_dead

    async with asyncio.timeout(10):
        await dials.get()
        await dials.get()
    assert not await is_dead()
    driver.close()
    await driver.wait_closed()
    await until(is_dead, "the end of the job")
