"""No starvation: at rest whoever waits could not run now; overtaking is bounded at any moment."""

from __future__ import annotations

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common.resources import RESOURCE_UNIT
from cluster_simulator.checkers.checker import Checker
from gcs_service.core.placement.limits import OVERTAKEN_CHECKED_MAX, OVERTAKES_MAX
from raylet_agent.core.lease import LeaseState

_CREATED = pg.PLACEMENT_GROUP_STATE_CREATED


class NoStarvation(Checker):
    """Groups, leases and actors that wait."""

    name = "no_starvation"

    def during(self) -> None:
        """A waiting group is not overtaken for ever."""
        gcs = self.world.gcs
        if gcs is None:
            return
        for record in gcs.core.placement.records():
            if record.overtaken > OVERTAKES_MAX + OVERTAKEN_CHECKED_MAX:
                group_id = record.spec.placement_group_id
                raise self.broken(f"overtaken {record.overtaken} times", group_id)

    def at_rest(self) -> None:
        """No wake-up was lost."""
        gcs = self.world.gcs
        assert gcs is not None, "at rest the GCS runs"
        claimed = False
        for record in gcs.core.placement.records():
            state = record.state
            group_id = record.spec.placement_group_id
            if state in {
                pg.PLACEMENT_GROUP_STATE_PREPARED,
                pg.PLACEMENT_GROUP_STATE_REMOVING,
            }:
                name = pg.PlacementGroupState.Name(state)
                raise self.broken(f"group {group_id.hex()} is {name} at rest", group_id)
            waits = state in {
                pg.PLACEMENT_GROUP_STATE_PENDING,
                pg.PLACEMENT_GROUP_STATE_RESCHEDULING,
            }
            if waits and record.spec.on_loss != pg.ON_LOSS_WAIT:
                claimed = claimed or record.overtaken >= OVERTAKES_MAX
                if not claimed and gcs.core.placement.explain(group_id).fits:
                    message = f"group {group_id.hex()} waits and fits: {record.reason}"
                    raise self.broken(message, group_id)
        self._leases()
        self._gangs()

    def _leases(self) -> None:
        for agent in self.world.agents.values():
            for lease in agent.core.leasing.leases.values():
                if lease.state in {LeaseState.STARTING, LeaseState.ENDING}:
                    message = f"a lease of {agent.name} is {lease.state.name} at rest"
                    raise self.broken(message, agent.node_id, lease.lease_id)
                if lease.state != LeaseState.WAITING:
                    continue
                if lease.shape.group_id:
                    fits = agent.core.leasing.bundle_for(lease) is not None
                else:
                    fits = agent.core.ledger.node.lacks(lease.shape.needed()) is None
                if fits and not agent.core.facts.draining:
                    message = f"a lease waits at {agent.name} and fits there"
                    raise self.broken(message, agent.node_id, lease.lease_id)

    def _room_somewhere(self) -> bool:
        """Whether a task of one CPU could run on some node."""
        return any(
            agent.core.ledger.node.available.get("CPU", 0) >= RESOURCE_UNIT
            and not agent.core.facts.draining
            for agent in self.world.agents.values()
        )

    def _gangs(self) -> None:
        """Actors of a placed group all run."""
        gcs = self.world.gcs
        assert gcs is not None
        for owner in self.world.owners.values():
            if gcs.core.owners.is_dead(owner.owner_id):
                continue  # it was cut off for too long, and has yet to hear that it is dead
            waiting = sum(line.waiting for line in owner.tasks)
            if waiting and self._room_somewhere():
                raise self.broken(f"{waiting} tasks of {owner.name} wait", owner.owner_id)
            for gang in owner.gangs:
                if gang.state != _CREATED:
                    continue
                for actor in gang.actors:
                    if actor.is_alive or actor.life.is_dead:
                        continue
                    state = t.ActorState.Name(actor.life.state)
                    message = f"an actor of a placed group is {state} at rest"
                    raise self.broken(message, actor.life.actor_id, gang.group_id, actor.lease_id)
