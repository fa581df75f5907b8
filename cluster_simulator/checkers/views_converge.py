"""Views converge: at rest everybody sees the nodes that there are, as they are."""

from __future__ import annotations

from cluster_api.v1 import types_pb2 as t
from cluster_simulator.checkers.checker import Checker
from driver_client.core.bundle_choice import GONE


class ViewsConverge(Checker):
    """The GCS's node table, the schedulers' views, everybody's scheduler, owners' group records."""

    name = "views_converge"

    def at_rest(self) -> None:
        """Nothing is on its way any more."""
        gcs = self.world.gcs
        assert gcs is not None, "at rest the GCS runs"
        running = {agent.node_id: agent for agent in self.world.agents.values()}
        alive = {entry.record.node_id: entry.record for entry in gcs.core.membership.nodes.alive()}
        for node_id in [*running, *alive]:
            if (node_id in running) != (node_id in alive):
                where = "runs, dead for the GCS" if node_id in running else "alive for the GCS only"
                raise self.broken(f"node {node_id.hex()} {where}", node_id)
        for agent in running.values():
            draining = alive[agent.node_id].state == t.NODE_STATE_DRAINING
            if draining != agent.core.facts.draining:
                message = f"{agent.name} drains: {agent.core.facts.draining}, GCS: {draining}"
                raise self.broken(message, agent.node_id)
        self._schedulers()
        self._groups()

    def _schedulers(self) -> None:
        gcs = self.world.gcs
        assert gcs is not None
        address = gcs.core.membership.nodes.scheduler_address()
        for agent in self.world.agents.values():
            facts = agent.core.facts
            if facts.scheduler_address != address:
                message = f"{agent.name} asks {facts.scheduler_address!r}, not {address!r}"
                raise self.broken(message, agent.node_id)
            if not facts.is_scheduler:
                continue
            for other in self.world.agents.values():
                view = agent.core.views.get(other.node_id)
                if view is None:
                    raise self.broken(
                        f"{agent.name} has no view of {other.name}", agent.node_id, other.node_id
                    )
                free = {k: v for k, v in other.core.ledger.node.available.items() if v}
                room = view.available if view.own is None else view.own.available
                seen = {k: v for k, v in room.items() if v}
                if free != seen:
                    message = f"{agent.name} sees {seen} free on {other.name}, which has {free}"
                    raise self.broken(message, agent.node_id, other.node_id)

    def _groups(self) -> None:
        gcs = self.world.gcs
        assert gcs is not None
        for owner in self.world.owners.values():
            if not owner.groups.is_settled:
                raise self.broken(f"{owner.name} waits for an answer", owner.owner_id)
            for gang in owner.gangs:
                record = gcs.core.placement.record(gang.group_id)
                truth = 0 if record is None else record.state
                over = truth in GONE and gang.state in GONE
                if record is not None and truth != gang.state and not over:
                    group = gang.group_id.hex()
                    message = f"{owner.name} sees group {group} as {gang.state}, it is {truth}"
                    raise self.broken(message, gang.group_id, owner.owner_id)
