"""What follows from a node's death: its groups, actors, owners and drivers hear of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster_api.v1 import types_pb2 as t
from gcs_service.core.actor_table import ActorTable
from gcs_service.core.demand_feed import DemandFeed
from gcs_service.core.detached_actors import DetachedActors
from gcs_service.core.driver_watch import DriverWatch
from gcs_service.core.job_table import JobTable
from gcs_service.core.membership import Membership
from gcs_service.core.moment import Moment
from gcs_service.core.owner_endings import OwnerEndings
from gcs_service.core.placement.placement_core import PlacementCore

_CRASH_CAUSES = {
    t.NODE_DEATH_CAUSE_PREEMPTED: t.ACTOR_DEATH_CAUSE_PREEMPTED,
}


class NodeDeaths:
    """Buries nodes and tells the other tables.

    Args:
        placed: takes the placement core's effects.
    """

    def __init__(
        self,
        membership: Membership,
        jobs: JobTable,
        drivers: DriverWatch,
        actors: ActorTable,
        detached: DetachedActors,
        owner_endings: OwnerEndings,
        demand: DemandFeed,
        placement: PlacementCore,
        placed: Callable[[Iterable[object]], None],
    ) -> None:
        self._membership = membership
        self._jobs = jobs
        self._drivers = drivers
        self._actors = actors
        self._detached = detached
        self._owner_endings = owner_endings
        self._demand = demand
        self._placement = placement
        self._placed = placed

    def died(
        self, node_id: bytes, cause: t.NodeDeathCause.ValueType, message: str, at: Moment
    ) -> None:
        """The verdict on a node; one that is dead already changes nothing."""
        if cause != t.NODE_DEATH_CAUSE_EXPECTED:
            contact = self._membership.liveness.last_contact(node_id, at.mono_ms)
            message = f"{message}; {contact}"
        entry = self._membership.bury(node_id, cause, message, at)
        if entry is None:
            return
        self._demand.reported(node_id, None)
        self._demand.node_changed(node_id)
        self._placed(self._placement.node_lost(node_id, at.mono_ms))
        actor_cause = _CRASH_CAUSES.get(entry.record.death_cause, t.ACTOR_DEATH_CAUSE_NODE_DIED)
        self._is_gone(node_id, actor_cause, at)

    def follow_up(self, actors: list[t.ActorRecord], at: Moment) -> None:
        """A node's death was written in the last life; what follows from it may not have been."""
        nodes = self._membership.nodes
        homes = {job.home_node_id for job in self._jobs.running() if job.home_node_id}
        used = {record.node_id: None for record in actors if record.node_id}
        used |= {record.owner_node_id: None for record in actors if record.owner_node_id}
        for node_id in [*used, *sorted(homes - used.keys())]:
            if nodes.get_alive(node_id) is None:
                self._is_gone(node_id, t.ACTOR_DEATH_CAUSE_NODE_DIED, at)

    def _is_gone(self, node_id: bytes, cause: t.ActorDeathCause.ValueType, at: Moment) -> None:
        # Workers on the node were owners too: what they own elsewhere ends with them.
        workers = [r.worker_id for r in self._actors.on_node(node_id) if r.worker_id]
        workers += self._actors.owners_on(node_id)
        why = self._how(node_id)
        self._detached.node_lost(node_id, cause, why, at)
        self._owner_endings.end(workers, why, at)
        self._drivers.home_lost(node_id)

    def _how(self, node_id: bytes) -> str:
        """Node, cause and evidence in one sentence, for the errors of what was lost with it."""
        entry = self._membership.nodes.get(node_id)
        if entry is None:
            return f"node {node_id.hex()} died long ago"
        record = entry.record
        cause = t.NodeDeathCause.Name(record.death_cause).removeprefix("NODE_DEATH_CAUSE_")
        return f"node {node_id.hex()} died ({cause}): {record.death_message}"
