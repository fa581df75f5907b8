"""What the GCS believes about one node's room, for `check-ledger` and tests."""

from __future__ import annotations

import msgspec

from gcs_service.core.placement.node_room import NodeRoom


class NodeLedgerView(msgspec.Struct, frozen=True, gc=False):
    """`room` = `reported` - reservations above `applied` + what came back since.

    All fixed point.
    """

    node_id: bytes
    reported: dict[str, int]
    room: dict[str, int]
    total: dict[str, int]
    applied: int
    uncovered: int
    held: dict[str, int]
    """Sum of the bundles the GCS believes the node holds, being undone ones included."""


def ledger_view(node: NodeRoom) -> NodeLedgerView:
    """A copy of the node's books."""
    held: dict[str, int] = {}
    for holding in node.holdings.values():
        for name, amount in holding.amounts.items:
            held[name] = held.get(name, 0) + amount
    return NodeLedgerView(
        node.node_id,
        dict(node.base_class.room),
        dict(node.room_class.room),
        dict(node.total_class.room),
        node.applied,
        len(node.reservations),
        held,
    )
