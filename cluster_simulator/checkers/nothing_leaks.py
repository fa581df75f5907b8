"""Nothing leaks: when all owners have ended, nodes are empty and the GCS has forgotten the work."""

from __future__ import annotations

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_simulator.checkers.checker import Checker
from gcs_service.core import tables

_GONE = (pg.PLACEMENT_GROUP_STATE_REMOVED,)


class NothingLeaks(Checker):
    """Leases, workers, bundles, groups, jobs, sessions, stored rows."""

    name = "nothing_leaks"

    def at_rest(self) -> None:
        """Every leased worker belongs to somebody who knows it."""
        for agent in self.world.agents.values():
            for lease in agent.core.leasing.leases.values():
                if not lease.owner_id:
                    continue
                owner = self.world.owners.get(lease.owner_id)
                if owner is None or lease.lease_id not in owner.leases.leases:
                    message = f"{agent.name} has a lease that nobody owns"
                    raise self.broken(message, agent.node_id, lease.lease_id, lease.owner_id)
            known = {worker.worker_id for worker in agent.core.pool.rows()}
            for worker_id in agent.workers.living:
                if worker_id not in known:
                    message = f"{agent.name} forgot a living worker"
                    raise self.broken(message, agent.node_id, worker_id)

    def after_all_left(self) -> None:
        """Everything is free."""
        for agent in self.world.agents.values():
            core = agent.core
            left = [lease for lease in core.leasing.leases.values() if lease.owner_id]
            if left:
                first = left[0]
                message = f"{agent.name} has {len(left)} leases of owners that ended"
                raise self.broken(message, agent.node_id, first.lease_id, first.owner_id)
            if core.owners.rows():
                owner = core.owners.rows()[0]
                message = f"{agent.name} has owners that ended"
                raise self.broken(message, agent.node_id, owner.owner_id)
        gcs = self.world.gcs
        assert gcs is not None, "at rest the GCS runs"
        for record in gcs.core.placement.records():
            if record.state not in _GONE and not record.spec.detached:
                group_id = record.spec.placement_group_id
                state = pg.PlacementGroupState.Name(record.state)
                message = f"group {group_id.hex()} is {state}, its owner has ended"
                raise self.broken(message, group_id, record.spec.creator_owner_id)
        if gcs.core.jobs.running():
            job = gcs.core.jobs.running()[0]
            raise self.broken("a job runs, its driver has ended", job.driver_id)
        for record in gcs.core.actors.newest_first():
            if not record.detached and record.state != t.ACTOR_STATE_DEAD:
                raise self.broken("an actor outlived its owner", record.actor_id, record.owner_id)
        others = [link for link in gcs.sessions.values() if link.kind != "node"]
        if others:
            raise self.broken(f"the GCS keeps {len(others)} sessions of owners that ended")
        stored = gcs.disk.rows[tables.PLACEMENT_GROUP]
        alive = [r for r in gcs.core.placement.records() if r.state not in _GONE]
        if len(stored) != len(alive):
            raise self.broken(f"{len(stored)} groups are stored, {len(alive)} exist", *stored)
