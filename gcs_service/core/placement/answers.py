"""What a node's answer to a bundle command means, by what it holds of that attempt."""

from __future__ import annotations

from collections.abc import Callable

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.core.placement.holding import Holding, Phase
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.removal import Removal
from gcs_service.core.placement.scheduling import Scheduling
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.two_phase import (
    CANCEL,
    COMMIT,
    PREPARE,
    PREPARE_AND_COMMIT,
    RETURN,
    STALE_ATTEMPT,
    TwoPhaseCommit,
)


class BundleAnswers:
    """One method per action, found in a table."""

    def __init__(
        self,
        state: PlacementState,
        two_phase: TwoPhaseCommit,
        scheduling: Scheduling,
        removal: Removal,
    ) -> None:
        self._state = state
        self._two_phase = two_phase
        self._scheduling = scheduling
        self._removal = removal
        self._handlers: dict[int, Callable[[Holding, ns.BundleAnswer], None]] = {
            PREPARE: self._prepare_answered,
            PREPARE_AND_COMMIT: self._prepare_answered,
            COMMIT: self._commit_answered,
            CANCEL: self._undo_answered,
            RETURN: self._undo_answered,
        }

    def take(self, node: NodeRoom, answer: ns.BundleAnswer) -> None:
        """Takes one answer; whatever it says, the books stay consistent."""
        handler = self._handlers.get(answer.action)
        if handler is None:
            return
        holding = node.holdings.get((answer.placement_group_id, answer.attempt))
        if holding is not None:
            handler(holding, answer)
        elif answer.ok and answer.action not in (CANCEL, RETURN):
            self._undo_unexpected(node, answer)

    def _undo_unexpected(self, node: NodeRoom, answer: ns.BundleAnswer) -> None:
        """A late answer of an attempt nobody knows any more: whatever the node did is undone."""
        nothing = self._state.table.intern({})
        bundles = tuple((index, nothing) for index in answer.indexes)
        group_id = answer.placement_group_id
        orphan = Holding(node, group_id, answer.attempt, bundles, nothing, Phase.COMMITTED)
        self._two_phase.keep(self._state.groups.get(group_id), orphan)
        self._two_phase.undo(orphan, CANCEL, "late answer of an attempt that was given up")

    def _prepare_answered(self, holding: Holding, answer: ns.BundleAnswer) -> None:
        if holding.phase is Phase.UNDOING:
            holding.room_taken = holding.room_taken or answer.ok
            if not answer.ok:
                holding.node.refused(holding.prepare_sequence)
                self._state.room_changed(holding.node)
            return
        if holding.phase is not Phase.PREPARING:
            return
        group = self._state.groups[holding.group_id]
        attempt = group.attempt
        assert attempt is not None
        assert attempt.number == holding.attempt
        if not answer.ok:
            self._two_phase.prepare_refused(group, holding, answer)
            self._scheduling.queue_later(group)
            return
        self._two_phase.prepared(group, attempt, holding)
        if group.attempt is None and group.missing:
            self._scheduling.queue(group)

    def _commit_answered(self, holding: Holding, answer: ns.BundleAnswer) -> None:
        if holding.phase is not Phase.COMMITTING:
            return
        group = self._state.groups[holding.group_id]
        attempt = group.attempt
        assert attempt is not None
        if answer.ok:
            self._two_phase.committed(group, attempt, holding)
            if group.attempt is None and group.missing:
                self._scheduling.queue(group)
        elif answer.reason == STALE_ATTEMPT:
            group.message = f"node {holding.node.node_id.hex()} does not hold the prepared bundles"
            self._two_phase.fail(group)
            self._scheduling.queue_later(group)
        else:
            self._two_phase.refused_later(holding)

    def _undo_answered(self, holding: Holding, answer: ns.BundleAnswer) -> None:
        if holding.phase is not Phase.UNDOING or answer.action != holding.action:
            return
        if answer.ok:
            group = self._two_phase.undone(holding)
            self._removal.settle(group)
            self._scheduling.gave_back(group)
        else:
            self._two_phase.refused_later(holding)
