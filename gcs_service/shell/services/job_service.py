"""JobService."""

from __future__ import annotations

from cluster_api.v1 import gcs_pb2 as g
from gcs_service.core.moment import Moment
from gcs_service.shell.core_host import CoreHost
from gcs_service.shell.service_binding import unless_refused


class JobService:
    """Drivers begin and end."""

    def __init__(self, host: CoreHost) -> None:
        self._host = host
        self._core = host.core

    async def add_job(self, request: g.AddJobRequest) -> g.AddJobResponse:
        """Numbers a job; idempotent by driver id."""
        job: g.JobRecord = unless_refused(await self._host.ask(self._core.add_job, request.job))
        identity = self._core.identity
        return g.AddJobResponse(
            job_id=job.job_id,
            cluster_id=identity.cluster_id,
            epoch=identity.epoch,
            session_name=identity.session_name,
        )

    async def finish_job(self, request: g.FinishJobRequest) -> g.FinishJobResponse:
        """Ends a job and what it owns."""
        unless_refused(await self._host.ask(self._core.finish_job, request.job_id))
        return g.FinishJobResponse()

    async def get_all_jobs(self, request: g.GetAllJobsRequest) -> g.GetAllJobsResponse:
        """Newest first, or the one that is asked for."""

        def answer(_at: Moment) -> g.GetAllJobsResponse:
            jobs = self._core.jobs
            if request.job_id:
                job = jobs.get(request.job_id)
                return g.GetAllJobsResponse(jobs=[job] if job else [], total=len(jobs))
            return g.GetAllJobsResponse(jobs=jobs.rows(request.limit), total=len(jobs))

        return await self._host.ask(answer)
