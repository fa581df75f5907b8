"""Jobs: one per driver. Numbers grow across restarts; finished ones are kept up to a cap."""

from __future__ import annotations

from cluster_api.v1 import gcs_pb2 as g
from cluster_common import ids
from gcs_service import limits


class JobTable:
    """All running jobs and the newest finished ones, `finished_max` of them."""

    def __init__(self, finished_max: int | None = None) -> None:
        self._finished_max = finished_max
        self._jobs: dict[bytes, g.JobRecord] = {}
        self._by_driver: dict[bytes, bytes] = {}
        self._finished: dict[bytes, None] = {}
        self._last_number = 0

    @property
    def finished_max(self) -> int:
        """Finished ones kept."""
        return self._finished_max or limits.JOBS_FINISHED_MAX

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def running_count(self) -> int:
        """Jobs that have not ended."""
        return len(self._jobs) - len(self._finished)

    def load(self, record: g.JobRecord) -> None:
        """A row of the last life of the service."""
        self._put(record)
        number = int.from_bytes(record.job_id, "big")
        self._last_number = max(self._last_number, number)

    def load_last_number(self, number: int) -> None:
        """The counter outlives forgotten rows."""
        self._last_number = max(self._last_number, number)

    @property
    def last_number(self) -> int:
        """Number of the newest job ever."""
        return self._last_number

    def get(self, job_id: bytes) -> g.JobRecord | None:
        """A job, running or finished."""
        return self._jobs.get(job_id)

    def of_driver(self, driver_id: bytes) -> g.JobRecord | None:
        """The job of a driver."""
        job_id = self._by_driver.get(driver_id)
        return self._jobs.get(job_id) if job_id is not None else None

    def running(self) -> list[g.JobRecord]:
        """Jobs that have not ended, oldest first."""
        return [job for job in self._jobs.values() if not job.is_dead]

    def running_at(self, home_node_id: bytes) -> list[g.JobRecord]:
        """Running jobs whose driver lived on this node."""
        return [job for job in self.running() if job.home_node_id == home_node_id]

    def add(self, request: g.JobRecord, wall_ms: int) -> g.JobRecord:
        """A new job under the next number."""
        self._last_number += 1
        record = g.JobRecord()
        record.CopyFrom(request)
        record.job_id = ids.job_id(self._last_number)
        record.start_time_ms = wall_ms
        record.is_dead = False
        self._put(record)
        return record

    def finish(
        self, job_id: bytes, wall_ms: int, message: str
    ) -> tuple[g.JobRecord, list[bytes]] | None:
        """Ends a running job; also the ids that fell off. None: unknown or finished before."""
        before = self._jobs.get(job_id)
        if before is None or before.is_dead:
            return None
        record = g.JobRecord()
        record.CopyFrom(before)
        record.is_dead = True
        record.end_time_ms = wall_ms
        record.end_message = message
        self._put(record)
        forgotten: list[bytes] = []
        while len(self._finished) > self.finished_max:
            oldest = next(iter(self._finished))
            del self._finished[oldest]
            gone = self._jobs.pop(oldest)
            self._by_driver.pop(gone.driver_id, None)
            forgotten.append(oldest)
        return record, forgotten

    def rows(self, limit: int) -> list[g.JobRecord]:
        """Newest first."""
        limit = limit or limits.LIST_ROWS_MAX
        return list(self._jobs.values())[::-1][:limit]

    def _put(self, record: g.JobRecord) -> None:
        self._jobs[record.job_id] = record
        self._by_driver[record.driver_id] = record.job_id
        if record.is_dead:
            self._finished[record.job_id] = None
