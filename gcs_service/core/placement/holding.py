"""What one node holds, or is being asked to hold, of one group under one attempt.

    PREPARING -> PREPARED -> COMMITTING -> COMMITTED      (one node only: PREPARING -> COMMITTED)
    any -> UNDOING -> gone

A holding leaves only when the node said so, or the node is dead. While it is UNDOING nothing waits
for it.
"""

from __future__ import annotations

import enum

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.core.placement.amounts import Amounts
from gcs_service.core.placement.node_room import NodeRoom


class Phase(enum.Enum):
    """How far the node is known to be."""

    PREPARING = "preparing"
    PREPARED = "prepared"
    COMMITTING = "committing"
    COMMITTED = "committed"
    UNDOING = "undoing"


class Holding:
    """One (node, group, attempt). `amounts` is the sum of its bundles."""

    __slots__ = (
        "action",
        "amounts",
        "attempt",
        "bundles",
        "group_id",
        "node",
        "phase",
        "prepare_sequence",
        "reason",
        "refusals",
        "repeat_at_ms",
        "room_taken",
        "sequence",
    )

    def __init__(
        self,
        node: NodeRoom,
        group_id: bytes,
        attempt: int,
        bundles: tuple[tuple[int, Amounts], ...],
        amounts: Amounts,
        phase: Phase,
    ) -> None:
        self.node = node
        self.group_id = group_id
        self.attempt = attempt
        self.bundles = bundles
        self.amounts = amounts
        self.phase = phase
        self.action: ns.BundleAction.ValueType = ns.BUNDLE_ACTION_UNSPECIFIED
        self.reason = ""
        """Why it is being undone."""
        self.sequence = 0
        self.prepare_sequence = 0
        self.room_taken = phase is not Phase.PREPARING
        """Whether the node is known to have taken the room."""
        self.refusals = 0
        self.repeat_at_ms = 0

    @property
    def key(self) -> tuple[bytes, int]:
        """Its place among the node's holdings."""
        return (self.group_id, self.attempt)

    @property
    def positions(self) -> list[int]:
        """Bundle indexes."""
        return [index for index, _amounts in self.bundles]

    @property
    def outstanding(self) -> bool:
        """Whether a command that must be repeated is unanswered."""
        return self.phase in (Phase.COMMITTING, Phase.UNDOING)

    def command(self) -> ns.BundleCommand:
        """The command of its present action and number; only a prepare needs the resources."""
        prepares = self.phase is Phase.PREPARING
        return ns.BundleCommand(
            action=self.action,
            placement_group_id=self.group_id,
            attempt=self.attempt,
            bundles=[
                ns.Bundle(index=index, resources=amounts.message if prepares else None)
                for index, amounts in self.bundles
            ],
            reservation_seq=self.sequence,
            reason=self.reason,
        )
