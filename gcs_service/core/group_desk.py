"""The counter where processes ask for placement groups; answers go to who asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core import tables
from gcs_service.core.effects import CloseSession, Effect, Tell
from gcs_service.core.moment import Moment
from gcs_service.core.owner_tombstones import OwnerTombstones
from gcs_service.core.placement import effects as placement_effects
from gcs_service.core.placement.placement_core import PlacementCore
from gcs_service.core.tables import Write
from gcs_service.core.watchers import Watchers

NO_SESSION = 0


class GroupAnswer(msgspec.Struct, frozen=True, gc=False):
    """One item of a `GroupAnswerFrame`; exactly one field is set."""

    group: pg.PlacementGroupRecord | None = None
    refusal: pg.GroupRefusal | None = None
    removal_accepted: bytes | None = None
    create_accepted: bytes | None = None
    unknown: bytes | None = None


class GroupDesk:
    """Sessions' watches and the translation of the placement core's effects.

    Groups that changed are collected for `take_changed`: detached actors inside them follow.
    """

    def __init__(
        self,
        placement: PlacementCore,
        owners: OwnerTombstones,
        out: list[Effect],
        send: Callable[[bytes, ns.GcsItem], bool],
    ) -> None:
        self._out = out
        self._send = send
        self._placement = placement
        self._owners = owners
        self._watchers: Watchers[bytes] = Watchers()
        self._changed: dict[bytes, pg.PlacementGroupRecord] = {}

    @property
    def watches(self) -> int:
        """Open watches."""
        return len(self._watchers)

    def take_changed(self) -> list[pg.PlacementGroupRecord]:
        """Groups that changed since the last call, newest record each."""
        changed = list(self._changed.values())
        self._changed.clear()
        return changed

    def request(self, session: int, item: pg.GroupRequest, at: Moment) -> Sequence[Effect | object]:
        """One item of a process's stream. May contain placement effects: see `translate`."""
        kind = item.WhichOneof("item")
        if kind == "create":
            return self._create(session, item.create, at)
        if kind == "remove":
            return list(self._placement.remove(item.remove, at.mono_ms, at.wall_ms))
        if kind == "watch":
            return list(self.watch(session, item.watch))
        if kind == "unwatch":
            self._watchers.remove(session, item.unwatch)
        return []

    def watch(self, session: int, group_id: bytes) -> list[Effect]:
        """What is known now; later changes follow until `unwatch`."""
        record = self._placement.record(group_id)
        if record is not None and record.state == pg.PLACEMENT_GROUP_STATE_REMOVED:
            return [_tell_group(session, record)]
        if not self._watchers.add(session, group_id):
            return [CloseSession(session)]
        if record is None:
            return [Tell(session, GroupAnswer(unknown=group_id), ("unknown", group_id))]
        return [_tell_group(session, record)]

    def close(self, session: int) -> None:
        """The process's stream ended; what it made stays until its owner ends."""
        self._watchers.close(session)

    def unwatch(self, session: int, group_id: bytes) -> None:
        """No more changes of this group to this session."""
        self._watchers.remove(session, group_id)

    def translate(
        self, effects: Iterable[placement_effects.Effect | Effect | object], asked_by: int
    ) -> None:
        """Effects of the placement core become effects for the shell, in the same order."""
        out = self._out
        for effect in effects:
            match effect:
                case placement_effects.SendBundle(node_id, command):
                    self._send(node_id, ns.GcsItem(node_id=node_id, bundle=command))
                case placement_effects.PersistGroup(record):
                    key = record.spec.placement_group_id
                    out.append(Write(tables.PLACEMENT_GROUP, key, record.SerializeToString()))
                case placement_effects.ForgetGroup(group_id):
                    out.append(Write(tables.PLACEMENT_GROUP, group_id, None))
                case placement_effects.GroupChanged(record):
                    group_id = record.spec.placement_group_id
                    self._changed[group_id] = record
                    out += [_tell_group(s, record) for s in self._watchers.of(group_id)]
                    if record.state == pg.PLACEMENT_GROUP_STATE_REMOVED:
                        self._watchers.end(group_id)
                case placement_effects.GroupAccepted(group_id):
                    out += _answer(asked_by, GroupAnswer(create_accepted=group_id))
                case placement_effects.GroupRefused(group_id, reason, message):
                    refusal = pg.GroupRefusal(
                        placement_group_id=group_id, reason=reason, message=message
                    )
                    out += _answer(asked_by, GroupAnswer(refusal=refusal))
                case placement_effects.RemovalAccepted(group_id):
                    out += _answer(asked_by, GroupAnswer(removal_accepted=group_id))
                case _:
                    out.append(effect)  # pyright: ignore[reportArgumentType] - the desk's own, already the shell's

    def _create(
        self, session: int, spec: pg.PlacementGroupSpec, at: Moment
    ) -> Sequence[Effect | object]:
        group_id = spec.placement_group_id
        if self._owners.is_dead(spec.creator_owner_id):
            reason = f"owner {spec.creator_owner_id.hex()} has ended"
            return [placement_effects.GroupRefused(group_id, "owner_dead", reason)]
        if not self._watchers.add(session, group_id):
            return [CloseSession(session)]
        return self._placement.create(spec, at.mono_ms, at.wall_ms)


def _tell_group(session: int, record: pg.PlacementGroupRecord) -> Tell:
    return Tell(session, GroupAnswer(group=record), ("group", record.spec.placement_group_id))


def _answer(session: int, answer: GroupAnswer) -> list[Effect]:
    return [Tell(session, answer)] if session != NO_SESSION else []
