"""What follows from an owner's end: its actors, its job and its groups end with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster_common import runtime_packages
from gcs_service.core import effects as fx
from gcs_service.core import tables
from gcs_service.core.actor_desk import ActorDesk
from gcs_service.core.actor_table import ActorTable
from gcs_service.core.effects import Effect
from gcs_service.core.job_table import JobTable
from gcs_service.core.moment import Moment
from gcs_service.core.owner_tombstones import OwnerTombstones
from gcs_service.core.placement.placement_core import PlacementCore
from gcs_service.core.tables import Write


class OwnerEndings:
    """Tells the tables of owners that ended. Effects go to `out`.

    Args:
        placed: takes the placement core's effects.
        actor_ended: called with the id of an actor that is DEAD from now on.
    """

    def __init__(
        self,
        owners: OwnerTombstones,
        jobs: JobTable,
        actors: ActorTable,
        actor_desk: ActorDesk,
        placement: PlacementCore,
        out: list[Effect],
        placed: Callable[[Iterable[object]], None],
        actor_ended: Callable[[bytes], None],
    ) -> None:
        self._owners = owners
        self._jobs = jobs
        self._actors = actors
        self._actor_desk = actor_desk
        self._placement = placement
        self._out = out
        self._placed = placed
        self._actor_ended = actor_ended

    def end(self, owner_ids: Iterable[bytes], message: str, at: Moment) -> None:
        """Declares owners dead; those that are dead already change nothing."""
        dead = [o for o in owner_ids if o and self._owners.add(o, at)]
        if not dead:
            return
        self._out.append(fx.OwnersEnded(tuple(dead)))
        for owner_id in dead:
            self._end_actors_of(owner_id, message, at)
            job = self._jobs.of_driver(owner_id)
            if job is not None and not job.is_dead:
                self._placed(self._placement.owner_ended(owner_id, at.mono_ms))
                self._end_job(job.job_id, message, at)

    def _end_job(self, job_id: bytes, message: str, at: Moment) -> None:
        finished = self._jobs.finish(job_id, at.wall_ms, message)
        if finished is None:
            return
        record, forgotten = finished
        self._out.append(Write(tables.JOB, job_id, record.SerializeToString()))
        self._out += [Write(tables.JOB, old, None) for old in forgotten]
        self._placed(self._placement.job_ended(job_id, at.mono_ms))
        self._out.append(fx.ForgetPackages(runtime_packages.job_prefix(job_id)))

    def _end_actors_of(self, owner_id: bytes, message: str, at: Moment) -> None:
        for record in self._actors.of_owner(owner_id):
            self._actor_desk.owner_died(record, message, at)
            if not record.detached:
                self._actor_ended(record.actor_id)
