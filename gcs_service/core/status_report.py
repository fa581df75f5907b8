"""What the cluster looks like from the core: counts, sums, and what waits. Built when asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common import resources
from gcs_service import limits
from gcs_service.core import tables
from gcs_service.core.control_core import ControlCore
from gcs_service.core.moment import Moment
from gcs_service.core.placement.limits import GROUPS_MAX, REMOVED_GROUPS_MAX

_UNPLACED = (
    pg.PLACEMENT_GROUP_STATE_PENDING,
    pg.PLACEMENT_GROUP_STATE_PREPARED,
    pg.PLACEMENT_GROUP_STATE_RESCHEDULING,
)


def status_of(core: ControlCore, at: Moment) -> g.GetStatusResponse:
    """The core's share of the status; demand, executors and counters are added by the shell."""
    identity, nodes = core.identity, core.membership.nodes
    groups = core.placement.records()
    response = g.GetStatusResponse(
        cluster_id=identity.cluster_id,
        epoch=identity.epoch,
        session_name=identity.session_name,
        uptime_ms=at.wall_ms - identity.start_wall_ms,
        nodes_alive=nodes.alive_count,
        nodes_dead=nodes.dead_count,
        nodes_draining=sum(e.record.state == t.NODE_STATE_DRAINING for e in nodes.alive()),
        jobs_running=core.jobs.running_count,
        pending_groups=[_pending(group) for group in groups if group.state in _UNPLACED],
        groups_by_state=_states(groups),
        actors_by_state={
            _short(t.ActorState.Name(t.ActorState.ValueType(state)), "ACTOR_STATE_"): count
            for state, count in sorted(core.actors.by_state.items())
            if count
        },
        tables=_tables(core, len(groups)),
    )
    _sum_resources(core, groups, response)
    return response


def _sum_resources(
    core: ControlCore, groups: list[pg.PlacementGroupRecord], response: g.GetStatusResponse
) -> None:
    total: resources.Vector = {}
    available: resources.Vector = {}
    for entry in core.membership.nodes.alive():
        resources.add(total, _plain(entry.snapshot.total.amounts or entry.record.total.amounts))
        resources.add(available, _plain(entry.snapshot.available.amounts))
    reserved: resources.Vector = {}
    for group in groups:
        for bundle, node_id in zip(group.spec.bundles, group.bundle_nodes, strict=False):
            if node_id and group.state == pg.PLACEMENT_GROUP_STATE_CREATED:
                resources.add(reserved, bundle.resources.amounts)
    for name, amount in total.items():
        # Two views: between a commit and its snapshot they differ for a moment.
        taken = max(amount - available.get(name, 0), 0)
        in_groups = min(reserved.get(name, 0), taken)
        response.total.amounts[name] = amount
        response.reserved.amounts[name] = in_groups
        response.used.amounts[name] = taken - in_groups
        response.available.amounts[name] = amount - taken


def _plain(amounts: Mapping[str, int]) -> resources.Vector:
    return {name: amount for name, amount in amounts.items() if not resources.is_group_name(name)}


def _pending(group: pg.PlacementGroupRecord) -> g.PendingGroup:
    return g.PendingGroup(
        placement_group_id=group.spec.placement_group_id,
        name=group.spec.name,
        reason=group.reason,
        message=group.message,
    )


def _states(groups: list[pg.PlacementGroupRecord]) -> dict[str, int]:
    counts = Counter(pg.PlacementGroupState.Name(group.state) for group in groups)
    return {_short(name, "PLACEMENT_GROUP_STATE_"): counts[name] for name in sorted(counts)}


def _tables(core: ControlCore, groups: int) -> list[g.TableStatus]:
    nodes = core.membership.nodes
    rows = (
        (tables.NODE, nodes.alive_count, limits.NODES_MAX),
        ("node_dead", nodes.dead_count, limits.DEAD_NODES_MAX),
        (tables.JOB, len(core.jobs), limits.JOBS_RUNNING_MAX + core.jobs.finished_max),
        ("job_finished", len(core.jobs) - core.jobs.running_count, core.jobs.finished_max),
        (tables.ACTOR, len(core.actors), limits.ACTORS_MAX),
        (tables.ACTOR_SPEC, len(core.detached), limits.ACTORS_MAX),
        (tables.PLACEMENT_GROUP, groups, GROUPS_MAX + REMOVED_GROUPS_MAX),
        (tables.OWNER, len(core.owners), limits.OWNER_TOMBSTONES_MAX),
        ("actor_dead", core.actors.by_state.get(t.ACTOR_STATE_DEAD, 0), core.actors.dead_max),
        ("group_watch", core.groups.watches, limits.WATCHES_MAX),
        ("actor_watch", len(core.detached.watchers), limits.WATCHES_MAX),
    )
    return [g.TableStatus(name=name, rows=count, rows_max=most) for name, count, most in rows]


def _short(name: str, prefix: str) -> str:
    return name.removeprefix(prefix)
