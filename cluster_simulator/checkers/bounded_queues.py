"""Bounded queues: timers, lines and tables stay in proportion to the objects they are about."""

from __future__ import annotations

from cluster_simulator.checkers.checker import Checker
from raylet_agent import limits

_TIMERS_MAX = 200
_TIMERS_PER_OBJECT = 40


class BoundedQueues(Checker):
    """Agents and GCS."""

    name = "bounded_queues"

    def during(self) -> None:
        """Nothing grows without an end."""
        for agent in self.world.agents.values():
            core = agent.core
            if len(core.leasing.queue) > limits.LEASES_QUEUED_MAX:
                raise self.broken(f"{agent.name} queues too many leases", agent.node_id)
            if len(core.pool) > limits.WORKERS_MAX:
                raise self.broken(f"{agent.name} has too many workers", agent.node_id)
        gcs = self.world.gcs
        if gcs is not None and gcs.core.effects_count:
            raise self.broken(f"{gcs.core.effects_count} effects were not carried out")

    def at_rest(self) -> None:
        """What is over has left the books."""
        gcs = self.world.gcs
        assert gcs is not None, "at rest the GCS runs"
        sessions = [link for link in gcs.sessions.values() if link.kind == "node"]
        if len(sessions) != len(self.world.agents):
            message = f"{len(sessions)} node sessions for {len(self.world.agents)} agents"
            raise self.broken(message)
        if len(gcs.journal):
            raise self.broken(f"{len(gcs.journal)} batches wait for the disk")
        if len(self.world.heap) > _TIMERS_MAX + _TIMERS_PER_OBJECT * len(self.world.machines):
            raise self.broken(f"{len(self.world.heap)} events are still to come")
