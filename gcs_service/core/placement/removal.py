"""The end of a group: durable intention first, then the bundles come back, then the row goes."""

from __future__ import annotations

from gcs_service.core.placement.effects import (
    ForgetGroup,
    GroupChanged,
    PersistGroup,
    RemovalAccepted,
)
from gcs_service.core.placement.group import REMOVED, REMOVING, Group
from gcs_service.core.placement.scheduling import Scheduling
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.two_phase import CANCEL, RETURN, TwoPhaseCommit


class Removal:
    """Removes groups; waits for no node that is dead."""

    def __init__(
        self, state: PlacementState, two_phase: TwoPhaseCommit, scheduling: Scheduling
    ) -> None:
        self._state = state
        self._two_phase = two_phase
        self._scheduling = scheduling

    def remove(self, group: Group, *, answer: bool, reason: str) -> None:
        """Starts the removal; repeated calls only answer."""
        state = self._state
        accepted = [RemovalAccepted(group.group_id)] if answer else []
        if group.state == REMOVING:
            state.out.extend(accepted)
            return
        self._scheduling.withdraw(group)
        self._free_name(group)
        # From here the attempt is no part of the group: its holdings are undone like all others.
        attempt, group.attempt = group.attempt, None
        in_attempt = [] if attempt is None else attempt.holdings
        group.state = REMOVING
        group.reason = "removed"
        group.message = reason
        if not group.holdings:
            self.settle(group)
            state.out.extend(accepted)
            return
        group.version += 1
        record = group.record()
        state.out.append(PersistGroup(record))
        state.out.extend(accepted)
        state.out.append(GroupChanged(record))
        for holding in list(group.holdings.values()):
            action = CANCEL if holding in in_attempt else RETURN
            self._two_phase.undo(holding, action, reason)

    def _free_name(self, group: Group) -> None:
        name = (group.spec.namespace, group.spec.name)
        if self._state.names.get(name) == group.group_id:
            del self._state.names[name]

    def settle(self, group: Group | None) -> None:
        """Ends the removal when nobody holds anything of the group any more."""
        if group is None or group.state != REMOVING or group.holdings:
            return
        state = self._state
        state.leave(group)
        group.state = REMOVED
        group.version += 1
        group.nodes = [None] * len(group.nodes)
        group.attempts = [0] * len(group.attempts)
        record = group.record()
        state.remember_removed(record)
        state.out.append(ForgetGroup(group.group_id))
        state.out.append(GroupChanged(record))
