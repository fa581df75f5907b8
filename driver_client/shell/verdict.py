"""A driver that was taken for dead while it lives, or outlived its cluster: it ends clearly.

Its agents have ended what it had leased, its job is over, its names are free. So everything that
waits here fails with the reason, and so does what it asks for later.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cluster_api.v1 import gcs_pb2 as gcs
from cluster_common.transport.logs import get_logger
from driver_client import exceptions, limits

if TYPE_CHECKING:
    from driver_client.shell.runtime import Runtime

log = get_logger()


def follow_verdict(runtime: Runtime) -> None:
    """From now on the runtime hears of its own death. I/O thread."""

    def told(message: str) -> None:
        if not runtime.closed:
            runtime.io.keeper.start(_end(runtime, message), "verdict")

    runtime.leases().declared_dead = told
    runtime.gcs().on_other_cluster = lambda: _cluster_gone(runtime)


def _cluster_gone(runtime: Runtime) -> None:
    """At the address of our GCS there is another cluster's, whose agents refuse us too."""
    text = runtime.gcs().refusal
    log.error("cluster_is_gone", why=text, job=runtime.facts.job_id.hex())
    if not runtime.closed:
        runtime.leases().end_all(text)


async def _end(runtime: Runtime, message: str) -> None:
    why = await _why(runtime)
    text = (
        f"this driver was declared dead by the cluster ({why or message}): what it had started "
        "was ended; call shoal.shutdown(), then shoal.init() begins a new job"
    )
    log.error("driver_declared_dead", why=why or message, job=runtime.facts.job_id.hex())
    runtime.gcs().refusal = text
    runtime.leases().end_all(text)


async def _why(runtime: Runtime) -> str:
    """What the GCS says about the end of our job."""
    link = runtime.gcs()
    request = gcs.GetAllJobsRequest(job_id=runtime.facts.job_id)
    try:
        async with asyncio.timeout(limits.VERDICT_REASON_S):
            answer = await link.call(link.jobs.GetAllJobs, request)
    except (TimeoutError, exceptions.RayError):
        return ""
    return answer.jobs[0].end_message if answer.jobs else ""
