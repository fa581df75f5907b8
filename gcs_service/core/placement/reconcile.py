"""A node opened a session and stated what it holds: both sides agree before new orders flow.

Stated and expected: taken as the answer that got lost. Stated, not expected: undone. Expected, not
stated: a prepare is sent again, a bundle of a placed group is lost, an undoing is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.core.placement.group import REMOVING
from gcs_service.core.placement.holding import Holding, Phase
from gcs_service.core.placement.loss import PLACED_AGAIN, Damage, LossRules
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.removal import Removal
from gcs_service.core.placement.scheduling import Scheduling
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.two_phase import (
    CANCEL,
    PREPARE_AND_COMMIT,
    RETURN,
    TwoPhaseCommit,
)

UNKNOWN_GROUP = "not known to the control service"
Stated = dict[tuple[bytes, int], list[ns.HeldBundle]]


class Reconciliation:
    """Compares one node's statement with its holdings."""

    def __init__(
        self,
        state: PlacementState,
        two_phase: TwoPhaseCommit,
        scheduling: Scheduling,
        loss: LossRules,
        removal: Removal,
    ) -> None:
        self._state = state
        self._two_phase = two_phase
        self._scheduling = scheduling
        self._loss = loss
        self._removal = removal

    def agree(self, node: NodeRoom, held: Sequence[ns.HeldBundle]) -> None:
        """The node's snapshot is taken already. Queues groups that look for a place again."""
        stated: Stated = {}
        for bundle in held:
            stated.setdefault((bundle.placement_group_id, bundle.attempt), []).append(bundle)
        damages: dict[bytes, Damage] = {}
        answered: list[Holding] = []
        for key, holding in list(node.holdings.items()):
            self._compare(node, holding, stated.pop(key, []), damages, answered)
        for bundles in stated.values():
            self._undo_orphan(node, bundles)
        self._loss.apply(damages)
        for holding in answered:
            self._take_as_answered(holding)

    def _compare(
        self,
        node: NodeRoom,
        holding: Holding,
        bundles: list[ns.HeldBundle],
        damages: dict[bytes, Damage],
        answered: list[Holding],
    ) -> None:
        committed = {bundle.index for bundle in bundles if bundle.committed}
        there = {bundle.index for bundle in bundles}
        whole = there.issuperset(holding.positions)
        all_committed = committed.issuperset(holding.positions)
        match holding.phase:
            case Phase.UNDOING if not bundles:
                group = self._two_phase.forget(holding)
                self._removal.settle(group)
                self._scheduling.gave_back(group)
            case Phase.UNDOING:
                holding.room_taken = True
                self._two_phase.send_undo(holding)
            case Phase.PREPARING:
                one_phase = holding.action == PREPARE_AND_COMMIT
                if all_committed or (whole and not one_phase):
                    answered.append(holding)
                else:
                    self._two_phase.send_prepare_again(holding)
            case Phase.COMMITTING if all_committed:
                answered.append(holding)
            case Phase.COMMITTING if whole:
                self._two_phase.send_commit(holding)
            case Phase.PREPARED if whole:
                pass
            case _:
                self._missing(node, holding, there, damages)

    def _missing(
        self, node: NodeRoom, holding: Holding, there: set[int], damages: dict[bytes, Damage]
    ) -> None:
        """The node gave up bundles that were counted on."""
        lost = [position for position in holding.positions if position not in there]
        if not lost:
            return
        cause = f"node {node.node_id.hex()} came back without its bundles"
        self._loss.holding_lost(damages, holding, lost, cause)
        rest = tuple(entry for entry in holding.bundles if entry[0] in there)
        if rest:
            holding.bundles = rest
            holding.amounts = self._state.table.sum([amounts for _index, amounts in rest])
        else:
            self._two_phase.forget(holding)

    def _undo_orphan(self, node: NodeRoom, bundles: list[ns.HeldBundle]) -> None:
        """Of a group or an attempt nobody knows."""
        table = self._state.table
        entries = tuple(
            (bundle.index, table.intern(dict(bundle.resources.amounts))) for bundle in bundles
        )
        first = bundles[0]
        amounts = table.sum([each for _index, each in entries])
        group_id = first.placement_group_id
        orphan = Holding(node, group_id, first.attempt, entries, amounts, Phase.COMMITTED)
        group = self._state.groups.get(group_id)
        self._two_phase.keep(group, orphan)
        action = RETURN if any(bundle.committed for bundle in bundles) else CANCEL
        lives_on = group is not None and group.state != REMOVING
        self._two_phase.undo(orphan, action, PLACED_AGAIN if lives_on else UNKNOWN_GROUP)

    def _take_as_answered(self, holding: Holding) -> None:
        """The statement stands for the answer that got lost with the old session."""
        group = self._state.groups.get(holding.group_id)
        attempt = None if group is None else group.attempt
        if group is None or attempt is None or attempt.number != holding.attempt:
            return
        if holding.phase is Phase.PREPARING:
            self._two_phase.prepared(group, attempt, holding)
        else:
            self._two_phase.committed(group, attempt, holding)
        if group.attempt is None and group.missing:
            self._scheduling.queue(group)
