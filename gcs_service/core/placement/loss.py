"""Bundles that are gone: what happens to their group (`on_loss`).

replace: only the lost bundles look for new places, inside the group's domain.
restart: the rest is given back too, and the group is placed again as a whole, anywhere.
wait: the lost bundles wait for a node that joins after the loss (the repaired machine); spare nodes
stay spare.
"""

from __future__ import annotations

from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.placement.group import CREATED, RESCHEDULING, Group
from gcs_service.core.placement.holding import Holding, Phase
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.scheduling import RESCHEDULING as REASON_RESCHEDULING
from gcs_service.core.placement.scheduling import Scheduling
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.two_phase import RETURN, TwoPhaseCommit

PLACED_AGAIN = "the whole group is placed again"
"""Nodes know by this reason that the group lives on."""


class Damage:
    """What one event did to one group."""

    __slots__ = ("attempt_broken", "cause", "group", "lost")

    def __init__(self, group: Group, cause: str) -> None:
        self.group = group
        self.cause = cause
        self.lost: list[int] = []
        self.attempt_broken = False


class LossRules:
    """Turns lost holdings into failed attempts and groups that look for a place again."""

    def __init__(
        self, state: PlacementState, two_phase: TwoPhaseCommit, scheduling: Scheduling
    ) -> None:
        self._state = state
        self._two_phase = two_phase
        self._scheduling = scheduling

    def holding_lost(
        self, damages: dict[bytes, Damage], holding: Holding, positions: list[int], cause: str
    ) -> None:
        """Notes what the loss of these bundles of a holding means for its group."""
        group = self._state.groups.get(holding.group_id)
        if group is None or holding.phase is Phase.UNDOING:
            return
        damage = damages.get(group.group_id)
        if damage is None:
            damage = damages[group.group_id] = Damage(group, cause)
        attempt = group.attempt
        if attempt is not None and attempt.number == holding.attempt:
            damage.attempt_broken = True
        else:
            damage.lost.extend(positions)

    def apply(self, damages: dict[bytes, Damage]) -> None:
        """Carries out the groups' rules and queues what looks for a place again, oldest first."""
        for damage in sorted(damages.values(), key=lambda damage: damage.group.order):
            group = damage.group
            if damage.attempt_broken:
                group.message = damage.cause
                self._two_phase.fail(group)
            if damage.lost:
                self._lose(group, damage)
            if group.attempt is not None or not group.missing or group.wait_class is not None:
                continue
            if damage.lost and group.spec.on_loss == pg.ON_LOSS_RESTART:
                self._scheduling.queue_after_giving_back(group)
            else:
                self._scheduling.queue(group)

    def _lose(self, group: Group, damage: Damage) -> None:
        # What it looks for changes: it leaves its class of equal wants and is queued anew.
        self._state.waiting.leave(group)
        group.parked = False
        for position in damage.lost:
            group.nodes[position] = None
            group.attempts[position] = 0
        rule = group.spec.on_loss
        if rule == pg.ON_LOSS_RESTART:
            self._two_phase.fail(group)
            self._give_all_back(group)
        elif rule == pg.ON_LOSS_WAIT:
            group.newer_than = self._state.newest_node_order
        if not any(group.nodes) and group.attempt is None:
            group.domain = ()
        if group.state == CREATED:
            group.state = RESCHEDULING
        group.reason = REASON_RESCHEDULING
        group.message = f"{damage.cause}: bundles {_listed(damage.lost)} lost; {_rule_text(rule)}"
        self._state.persist(group)

    def _give_all_back(self, group: Group) -> None:
        group.nodes = [None] * len(group.nodes)
        group.attempts = [0] * len(group.attempts)
        for holding in list(group.holdings.values()):
            self._two_phase.undo(holding, RETURN, PLACED_AGAIN)

    def node_lost(self, node: NodeRoom) -> list[Group]:
        """Everything the node held is gone. Returns the groups whose books changed."""
        damages: dict[bytes, Damage] = {}
        touched: dict[bytes, Group] = {}
        cause = f"node {node.node_id.hex()} died"
        for holding in list(node.holdings.values()):
            self.holding_lost(damages, holding, holding.positions, cause)
            group = self._two_phase.forget(holding)
            if group is not None:
                touched[group.group_id] = group
        self.apply(damages)
        return list(touched.values())


def _listed(positions: list[int]) -> str:
    shown = ", ".join(str(position) for position in sorted(positions)[:8])
    return shown + (f" and {len(positions) - 8} more" if len(positions) > 8 else "")


def _rule_text(rule: int) -> str:
    if rule == pg.ON_LOSS_RESTART:
        return "on_loss=restart: all bundles are placed again"
    if rule == pg.ON_LOSS_WAIT:
        return "on_loss=wait: waiting for a node that joins"
    return "on_loss=replace: placing them again"
