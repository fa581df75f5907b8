"""A node opened a session and stated what it holds: both sides agree before new orders flow.

Stated and expected: taken as the answer that got lost. Stated, not expected: undone. Expected, not
stated: a prepare is sent again, a bundle of a placed group is lost, an undoing is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.core.placement.group import Group
from gcs_service.core.placement.holding import Holding, Phase
from gcs_service.core.placement.loss import Damage, LossRules
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.removal import Removal
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.two_phase import (
    CANCEL,
    PREPARE_AND_COMMIT,
    RETURN,
    TwoPhaseCommit,
)

Stated = dict[tuple[bytes, int], list[ns.HeldBundle]]


class Reconciliation:
    """Compares one node's statement with its holdings."""

    def __init__(
        self,
        state: PlacementState,
        two_phase: TwoPhaseCommit,
        loss: LossRules,
        removal: Removal,
    ) -> None:
        self._state = state
        self._two_phase = two_phase
        self._loss = loss
        self._removal = removal

    def agree(self, node: NodeRoom, held: Sequence[ns.HeldBundle]) -> list[Group]:
        """The node's snapshot is taken already. Groups that must be queued again, oldest first."""
        stated: Stated = {}
        for bundle in held:
            stated.setdefault((bundle.placement_group_id, bundle.attempt), []).append(bundle)
        damages: dict[bytes, Damage] = {}
        answered: list[Holding] = []
        for key, holding in list(node.holdings.items()):
            self._compare(node, holding, stated.pop(key, []), damages, answered)
        for bundles in stated.values():
            self._undo_orphan(node, bundles)
        queue = {group.group_id: group for group in self._loss.apply(damages)}
        for holding in answered:
            group = self._take_as_answered(holding)
            if group is not None:
                queue[group.group_id] = group
        return sorted(queue.values(), key=lambda group: group.order)

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
                self._removal.settle(self._two_phase.forget(holding))
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
        self._two_phase.keep(self._state.groups.get(group_id), orphan)
        action = RETURN if any(bundle.committed for bundle in bundles) else CANCEL
        self._two_phase.undo(orphan, action, "not known to the control service")

    def _take_as_answered(self, holding: Holding) -> Group | None:
        """The statement stands for the answer that got lost with the old session."""
        group = self._state.groups.get(holding.group_id)
        attempt = None if group is None else group.attempt
        if group is None or attempt is None or attempt.number != holding.attempt:
            return None
        if holding.phase is Phase.PREPARING:
            self._two_phase.prepared(group, attempt, holding)
        else:
            self._two_phase.committed(group, attempt, holding)
        return group if group.attempt is None and group.missing else None
