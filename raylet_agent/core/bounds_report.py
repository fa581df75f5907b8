"""What the core of an agent keeps, each under its cap: for `shoal status -v`."""

from __future__ import annotations

from cluster_api.v1 import agent_pb2 as a
from cluster_common import limits as common_limits
from raylet_agent import limits
from raylet_agent.core.agent import AgentCore
from raylet_agent.core.table_size import table


def core_tables(core: AgentCore) -> list[a.AgentTable]:
    """Tables and queues of the decisions."""
    leases, waiting = core.leasing.leases, len(core.leasing.queue)
    owners, groups = core.owners, core.groups
    return [
        table("lease_waiting", waiting, limits.LEASES_QUEUED_MAX),
        table("lease", len(leases) - waiting, limits.WORKERS_MAX),
        table("lease_cancelled", len(core.leasing.cancelled), limits.CANCEL_TOMBSTONES_MAX),
        table("lease_in_transit", len(core.demand.transit), limits.LEASES_IN_TRANSIT_MAX),
        table("backlog", len(core.demand.backlogs), limits.BACKLOGS_MAX),
        table("owner", len(owners.rows()), common_limits.SERVER_CALLS_OPEN_MAX),
        table("owner_dead", owners.dead_count, limits.OWNER_TOMBSTONES_MAX),
        table("worker", len(core.pool), limits.WORKERS_MAX),
        table("bundle", len(list(core.ledger.bundles.rows()))),
        table("group_removed", groups.removed_count, limits.GROUP_TOMBSTONES_MAX),
        table("node_view", len(core.views)),
        table("node_dead", core.views.dead_count, limits.DEAD_NODES_REMEMBERED_MAX),
        table("room_index", core.scheduler.indexes_count, limits.ROOM_INDEXES_MAX),
        table("deadline", core.deadlines_count),
    ]
