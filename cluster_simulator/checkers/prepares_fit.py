"""No prepare is refused for want of room where only the GCS takes room: its ledger is exact.

In scenarios with other leases a refusal is honest (an agent granted them meanwhile), so this one is
asked only where the scenario says `exact_ledger`.
"""

from __future__ import annotations

from cluster_simulator.checkers.checker import Checker

_ROOM = ("insufficient_free", "device_fragmentation")


class PreparesFit(Checker):
    """Looks at what agents refused."""

    name = "prepares_fit"

    def during(self) -> None:
        """No refusal for want of room."""
        for node_id, group_id, why in self.world.refused_prepares:
            if why.startswith(_ROOM):
                message = f"a prepare of group {group_id.hex()} was refused: {why}"
                raise self.broken(message, node_id, group_id)
