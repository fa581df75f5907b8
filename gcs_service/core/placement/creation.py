"""New groups: refused with a reason, or accepted, written, and tried at once."""

from __future__ import annotations

from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.placement.effects import (
    GroupAccepted,
    GroupChanged,
    GroupRefused,
    PersistGroup,
)
from gcs_service.core.placement.group import Group
from gcs_service.core.placement.limits import GROUPS_MAX
from gcs_service.core.placement.request import parse_request
from gcs_service.core.placement.scheduling import Scheduling
from gcs_service.core.placement.state import PlacementState


class Creation:
    """Checks specs and enters groups into the books."""

    def __init__(self, state: PlacementState, scheduling: Scheduling) -> None:
        self._state = state
        self._scheduling = scheduling
        self._by_actor: dict[bytes, dict[bytes, None]] = {}

    def create(self, spec: pg.PlacementGroupSpec) -> None:
        """Makes the group of a spec.

        A repeated create of the same id is answered as the first one was.
        """
        state = self._state
        group_id = spec.placement_group_id
        known = state.groups.get(group_id)
        if known is not None:
            state.out.append(GroupAccepted(group_id))
            state.out.append(GroupChanged(known.record()))
            return
        removed = state.removed.get(group_id)
        if removed is not None:
            state.out.append(GroupAccepted(group_id))
            state.out.append(GroupChanged(removed))
            return
        refusal = self._refusal(spec)
        if refusal is not None:
            state.out.append(refusal)
            return
        try:
            request = parse_request(spec, state.table)
        except ValueError as error:
            state.out.append(GroupRefused(group_id, "bad_request", str(error)))
            return
        self._enter(Group(spec, request, state.next_group_order()))

    def _refusal(self, spec: pg.PlacementGroupSpec) -> GroupRefused | None:
        state = self._state
        group_id = spec.placement_group_id
        if not group_id:
            return GroupRefused(group_id, "bad_request", "a placement group needs an id")
        if len(state.groups) >= GROUPS_MAX:
            text = f"{GROUPS_MAX} placement groups exist already"
            return GroupRefused(group_id, "table_full", text)
        if spec.name and (spec.namespace, spec.name) in state.names:
            text = f"placement group name {spec.name!r} is taken in namespace {spec.namespace!r}"
            return GroupRefused(group_id, "name_taken", text)
        return None

    def _enter(self, group: Group) -> None:
        state = self._state
        state.enter(group)
        self.index(group)
        group.created_now_ms = state.now_ms
        group.created_wall_ms = state.wall_ms
        self._scheduling.queue(group)
        # Prepares may leave before the row is durable: a node that holds a bundle of a group nobody
        # remembers is told to undo it.
        self._scheduling.run()
        group.version += 1
        record = group.record()
        state.out.append(PersistGroup(record))
        state.out.append(GroupAccepted(group.group_id))
        state.out.append(GroupChanged(record))

    def index(self, group: Group) -> None:
        """Enters the group's name and creator."""
        spec = group.spec
        if spec.name:
            self._state.names.setdefault((spec.namespace, spec.name), group.group_id)
        if spec.creator_actor_id:
            of_actor = self._by_actor.setdefault(spec.creator_actor_id, {})
            of_actor[group.group_id] = None

    def of_actor(self, actor_id: bytes) -> list[Group]:
        """Groups made by an actor that ended; the index forgets the actor."""
        ids = self._by_actor.pop(actor_id, {})
        groups = self._state.groups
        return [groups[group_id] for group_id in ids if group_id in groups]
