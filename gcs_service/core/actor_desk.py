"""The counter for actors' names, owners' reports and detached creations."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core.actor_placing import wrong_in
from gcs_service.core.actor_table import ActorTable
from gcs_service.core.detached_actors import DetachedActors
from gcs_service.core.effects import CloseSession, Effect, Refusal, Tell
from gcs_service.core.known_values import unknown_in_actor
from gcs_service.core.moment import Moment
from gcs_service.core.owner_tombstones import OwnerTombstones


class ActorDesk:
    """Requests of processes about actors. Effects go to `out`; ends of actors to `take_ended`."""

    def __init__(
        self,
        table: ActorTable,
        detached: DetachedActors,
        owners: OwnerTombstones,
        out: list[Effect],
    ) -> None:
        self._table = table
        self._detached = detached
        self._owners = owners
        self._out = out
        self._ended: list[bytes] = []

    def take_ended(self) -> list[bytes]:
        """Actors whose owners said that they are dead, since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def register_named(self, record: t.ActorRecord, _at: Moment) -> t.ActorRecord | Refusal | None:
        """Takes the name for this actor. Who holds it already, or None: it is this actor's now."""
        refusal = self._refusal(record)
        if refusal is not None:
            return refusal
        if not record.name:
            return Refusal(fx.BAD_REQUEST, "only named actors are registered")
        if not self._is_of(record.owner_id, record):
            text = f"actor {record.actor_id.hex()} is not owned by {record.owner_id.hex()}"
            return Refusal(fx.BAD_REQUEST, text)
        holder = self._holder(record)
        if holder is None:
            self._put(record)
        return holder

    def create_detached(
        self, request: g.CreateDetachedActorRequest, at: Moment
    ) -> t.ActorRecord | Refusal | None:
        """Creates a detached actor; idempotent by id. Who holds the name already, or None."""
        record = request.actor
        refusal = self._refusal(record)
        if refusal is not None:
            return refusal
        wrong = wrong_in(request)
        if wrong:
            return Refusal(fx.BAD_REQUEST, f"a detached actor cannot be placed: {wrong}")
        if self._table.get(record.actor_id) is not None:
            self._detached.arguments_arrived(request, at)
            return None
        if record.name:
            holder = self._holder(record)
            if holder is not None:
                return holder
        self._detached.create(request, at)
        return None

    def report(
        self, owner_id: bytes, records: Sequence[t.ActorRecord], _at: Moment
    ) -> Refusal | None:
        """An owner's newest records, coalesced. Those of somebody else's actors change nothing.

        Returns:
            The first record that is not its own, when there is one; the others were taken.
        """
        if self._owners.is_dead(owner_id):
            return None  # its actors were ended with it
        refusal: Refusal | None = None
        for record in records:
            if not record.actor_id or unknown_in_actor(record):
                continue
            if not self._is_of(owner_id, record):
                text = (
                    f"actor {record.actor_id.hex()} is not owned by {owner_id.hex()}, "
                    "which reported about it"
                )
                refusal = refusal or Refusal(fx.BAD_REQUEST, text)
            else:
                self._put(record)
        return refusal

    def _is_of(self, owner_id: bytes, record: t.ActorRecord) -> bool:
        """An actor's id begins with its owner's; a detached one is driven here, by nobody else."""
        if record.detached or record.owner_id != owner_id:
            return False
        known = self._table.get(record.actor_id)
        return record.actor_id.startswith(owner_id) and not (known is not None and known.detached)

    def owner_died(self, record: t.ActorRecord, message: str, at: Moment) -> None:
        """The owner of this actor ended, and the actor with it; a detached one if it is unready."""
        if record.detached:
            self._detached.creator_ended(record.actor_id, message, at)
            return
        dead = t.ActorRecord()
        dead.CopyFrom(record)
        dead.version += 1
        dead.state = t.ACTOR_STATE_DEAD
        dead.end_time_ms = at.wall_ms
        dead.death.CopyFrom(
            t.ActorDeath(
                cause=t.ACTOR_DEATH_CAUSE_OWNER_DIED,
                message=f"owner {record.owner_id.hex()} ended: {message}",
                node_id=record.node_id,
                owner_id=record.owner_id,
                time_ms=at.wall_ms,
            )
        )
        self._put(dead, told=False)

    def watch(self, session: int, actor_ids: Sequence[bytes], _at: Moment) -> None:
        """Present states now, later ones as they change."""
        for actor_id in actor_ids:
            record = self._table.get(actor_id)
            is_over = record is not None and record.state == t.ACTOR_STATE_DEAD
            if not is_over and not self._detached.watchers.add(session, actor_id):
                self._out.append(CloseSession(session))
                return
            if record is not None:
                self._out.append(Tell(session, record, actor_id))

    def unwatch(self, session: int, actor_ids: Sequence[bytes], _at: Moment) -> None:
        """No more states of these."""
        for actor_id in actor_ids:
            self._detached.watchers.remove(session, actor_id)

    def rows(
        self, limit: int, job_id: bytes, state: int, _at: Moment
    ) -> tuple[list[t.ActorRecord], int]:
        """Newest first, filtered; and how many there are in all."""
        limit = min(limit or limits.LIST_ROWS_MAX, limits.LIST_ROWS_MAX)
        rows: list[t.ActorRecord] = []
        for record in self._table.newest_first():
            if len(rows) == limit:
                break
            if (not job_id or record.job_id == job_id) and (not state or record.state == state):
                rows.append(record)
        return rows, len(self._table)

    def _refusal(self, record: t.ActorRecord) -> Refusal | None:
        if not record.actor_id:
            return Refusal(fx.BAD_REQUEST, "an actor needs an id")
        unknown = unknown_in_actor(record)
        if unknown:
            return Refusal(fx.BAD_REQUEST, unknown)
        if self._owners.is_dead(record.owner_id):
            return Refusal(fx.OWNER_DEAD, f"owner {record.owner_id.hex()} has ended")
        if len(self._table) >= limits.ACTORS_MAX:
            return Refusal(fx.TABLE_FULL, f"{limits.ACTORS_MAX} actors are known, the limit")
        return None

    def _holder(self, record: t.ActorRecord) -> t.ActorRecord | None:
        holder = self._table.by_name(record.namespace, record.name)
        if holder is None or holder.actor_id == record.actor_id:
            return None
        return holder

    def _put(self, record: t.ActorRecord, *, told: bool = True) -> None:
        writes = self._table.put(record)
        if writes is None:
            return
        self._out.extend(writes)
        for session in self._detached.watchers.of(record.actor_id):
            self._out.append(Tell(session, record, record.actor_id))
        if record.state == t.ACTOR_STATE_DEAD:
            self._detached.watchers.end(record.actor_id)
        if told and record.state == t.ACTOR_STATE_DEAD:
            self._ended.append(record.actor_id)
