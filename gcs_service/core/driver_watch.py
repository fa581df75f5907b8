"""Drivers as the GCS looks after them itself, beside their home agents.

A home agent reports its driver's death, unless the driver ended before it had opened a session
there, or has moved to another home, which the GCS does not learn, and both ended. So every driver
is dialled now and then; one that refuses is gone. When the home died, or cannot reach its driver,
silence counts as well.
"""

from __future__ import annotations

from gcs_service import limits
from gcs_service.core.effects import Effect, ProbeDriver
from gcs_service.core.job_table import JobTable
from gcs_service.core.moment import Moment


class DriverWatch:
    """Jobs to look at, by id, in the order of their time. Effects go to `out`."""

    def __init__(self, jobs: JobTable, out: list[Effect]) -> None:
        self._jobs = jobs
        self._out = out
        self._due_ms: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._due_ms)

    def look_later(self, job_id: bytes, at: Moment) -> None:
        """The driver is new, or its port answered: it is dialled again after a while."""
        self._due_ms.pop(job_id, None)
        self._due_ms[job_id] = at.mono_ms + limits.DRIVER_PROBE_INTERVAL_MS

    def home_lost(self, node_id: bytes) -> None:
        """A node is dead: its drivers are dialled now."""
        for job in self._jobs.running_at(node_id):
            self._probe(job.job_id, silence_counts=True)

    def look_now(self, driver_id: bytes) -> bool:
        """Its home agent cannot reach this driver: it is asked itself. False: no such driver."""
        job = self._jobs.of_driver(driver_id)
        if job is None or job.is_dead or not job.driver_address:
            return False
        self._probe(job.job_id, silence_counts=True, must_speak=True)
        return True

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return next(iter(self._due_ms.values()), None)

    def tick(self, at: Moment) -> None:
        """Dials whose time has come."""
        for job_id, due_ms in list(self._due_ms.items()):
            if due_ms > at.mono_ms:
                return
            del self._due_ms[job_id]
            self._probe(job_id, silence_counts=False)

    def _probe(self, job_id: bytes, *, silence_counts: bool, must_speak: bool = False) -> None:
        job = self._jobs.get(job_id)
        if job is not None and not job.is_dead and job.driver_address:
            effect = ProbeDriver(job_id, job.driver_address, silence_counts, must_speak)
            self._out.append(effect)
