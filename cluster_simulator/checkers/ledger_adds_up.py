"""The ledger adds up: what the GCS believes of a node's room is what the node has."""

from __future__ import annotations

from cluster_common.identity_resources import without_identity
from cluster_simulator.checkers.checker import Checker


class LedgerAddsUp(Checker):
    """At rest both books are equal and nothing is reserved any more."""

    name = "ledger_adds_up"

    def at_rest(self) -> None:
        """Every node's room, as decisions see it, against the agent's own."""
        gcs = self.world.gcs
        assert gcs is not None, "at rest the GCS runs"
        for agent in self.world.agents.values():
            view = gcs.core.placement.ledger(agent.node_id)
            if view is None:
                raise self.broken(f"the GCS does not know {agent.name}", agent.node_id)
            # Of names of nodes the GCS counts only those that somebody asks for.
            ours = without_identity(agent.core.ledger.node.available)
            theirs = without_identity(gcs.core.placement.room_of(agent.node_id))
            free, believed = ({k: v for k, v in each.items() if v} for each in (ours, theirs))
            if free != believed:
                message = f"{agent.name} has {free} free, the GCS believes {believed}"
                raise self.broken(message, agent.node_id)
