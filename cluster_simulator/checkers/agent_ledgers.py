"""No double booking: no agent gives out more than it has; its books are the sum of its grants."""

from __future__ import annotations

from cluster_simulator.checkers.checker import Checker


class AgentLedgers(Checker):
    """The agents' own truth."""

    name = "agent_ledgers"

    def during(self) -> None:
        """Every agent's books, now."""
        for agent in self.world.agents.values():
            differences = agent.core.ledger.check()
            if differences:
                raise self.broken(f"{agent.name}: {'; '.join(differences)}", agent.node_id)
            for name, amount in agent.core.ledger.node.available.items():
                if amount < 0:
                    message = f"{agent.name} has {amount} of {name} free"
                    raise self.broken(message, agent.node_id)
