"""The end of a driver's connection: job, agents, server, in this order."""

from __future__ import annotations

import asyncio

from cluster_api.v1 import gcs_pb2 as gcs
from driver_client import exceptions, limits
from driver_client.shell.gcs_link import GcsLink
from driver_client.shell.log_printer import quiet_for_s
from driver_client.shell.runtime import Runtime


async def goodbye(runtime: Runtime) -> None:
    """Ends the job, tells the agents, closes the server. I/O thread."""
    host = runtime.host_if_any
    if host is not None:
        await host.reporter.flushed(0.2)
    link = runtime.gcs()
    runtime.leases().finishing()
    await finish_job(link, runtime.facts.job_id)
    await runtime.close_async("the driver called shutdown")
    await _last_output(runtime)
    if runtime.server is not None:
        await runtime.server.stop(0)


async def finish_job(link: GcsLink, job_id: bytes) -> None:
    """Tells the GCS that the job is over."""
    request = gcs.FinishJobRequest(job_id=job_id)
    try:
        await link.call(
            link.jobs.FinishJob, request, timeout_s=limits.FINISH_JOB_S, reconnect_s=0.0
        )
    except (exceptions.RayError, ValueError):
        return  # the GCS is away: our agent's word about the lost driver ends the job


async def _last_output(runtime: Runtime) -> None:
    """What workers printed before they were ended is still on its way through their agents."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    if not runtime.facts.log_to_driver or not runtime.has_leases:
        return
    while loop.time() < start + limits.LAST_OUTPUT_MAX_S:
        quiet_s = min(loop.time() - start, quiet_for_s())
        if quiet_s >= limits.LAST_OUTPUT_QUIET_S:
            return
        await asyncio.sleep(limits.LAST_OUTPUT_QUIET_S - quiet_s)
