"""What the timers of groups and nodes do when they are due."""

from __future__ import annotations

from collections.abc import Callable

from gcs_service.core.placement.group import Group
from gcs_service.core.placement.holding import Phase
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.scheduling import Scheduling
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.timers import TimerKind
from gcs_service.core.placement.two_phase import TwoPhaseCommit


class Deadlines:
    """Carries out due timers; one whose moment was superseded does nothing.

    Args:
        lose_node: called with a node that never came back after a restart.
    """

    def __init__(
        self,
        state: PlacementState,
        two_phase: TwoPhaseCommit,
        scheduling: Scheduling,
        lose_node: Callable[[NodeRoom], None],
    ) -> None:
        self._state = state
        self._two_phase = two_phase
        self._scheduling = scheduling
        self._lose_node = lose_node

    def carry_out(self) -> None:
        """All that are due at the state's present moment, in order."""
        state = self._state
        while (due := state.timers.pop_due(state.now_ms)) is not None:
            due_ms, kind, owner = due
            if kind is TimerKind.RETRY or kind is TimerKind.ATTEMPT:
                group = state.groups.get(owner)
                if group is not None:
                    self._group_due(group, kind, due_ms)
                continue
            node = state.nodes.get(owner)
            if node is not None:
                self._node_due(node, kind, due_ms)

    def _group_due(self, group: Group, kind: TimerKind, due_ms: int) -> None:
        if kind is TimerKind.RETRY:
            self._scheduling.retry(group, due_ms)
            return
        attempt = group.attempt
        if attempt is None or attempt.deadline_ms != due_ms or attempt.committing:
            return
        # Unanswered prepares: a node that is away has its own deadline, a silent one is distrusted.
        silent = [one for one in attempt.holdings if one.phase is Phase.PREPARING]
        for holding in silent:
            self._two_phase.distrust(holding.node, holding.prepare_sequence)
            self._state.room_changed(holding.node)
        group.message = f"{len(silent)} nodes did not answer a prepare in time"
        self._two_phase.fail(group)
        self._scheduling.queue_later(group)

    def _node_due(self, node: NodeRoom, kind: TimerKind, due_ms: int) -> None:
        if kind is TimerKind.REPEAT and node.repeat_at_ms == due_ms:
            self._two_phase.repeat(node)
        elif kind is TimerKind.SUSPECT and node.suspect_until_ms == due_ms:
            node.suspect_until_ms = 0
            self._state.room_changed(node)
        elif kind is TimerKind.RESTART and not node.joined:
            self._lose_node(node)
