"""What the cluster looks like from the core: counts, sums, and what waits. Built when asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common import resources
from gcs_service.core import bounds_report
from gcs_service.core.control_core import ControlCore
from gcs_service.core.moment import Moment
from gcs_service.core.placement.limits import STATUS_LOOKS_MAX

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
        pending_groups=_pending(core, groups),
        groups_by_state=_states(groups),
        actors_by_state={
            _short(t.ActorState.Name(t.ActorState.ValueType(state)), "ACTOR_STATE_"): count
            for state, count in sorted(core.actors.by_state.items())
            if count
        },
        tables=[
            g.TableStatus(name=name, rows=count, rows_max=most)
            for name, count, most in bounds_report.rows_of(core)
        ],
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
        response.total.amounts[name] = resources.saturated(amount)
        response.reserved.amounts[name] = resources.saturated(in_groups)
        response.used.amounts[name] = resources.saturated(taken - in_groups)
        response.available.amounts[name] = resources.saturated(amount - taken)


def _plain(amounts: Mapping[str, int]) -> resources.Vector:
    return {name: amount for name, amount in amounts.items() if not resources.is_group_name(name)}


def _pending(core: ControlCore, groups: list[pg.PlacementGroupRecord]) -> list[g.PendingGroup]:
    unplaced = [group for group in groups if group.state in _UNPLACED]
    texts = core.placement.waiting_texts(STATUS_LOOKS_MAX) if unplaced else {}
    return [
        g.PendingGroup(
            placement_group_id=group.spec.placement_group_id,
            name=group.spec.name,
            reason=group.reason,
            message=texts.get(group.spec.placement_group_id, group.message),
        )
        for group in unplaced
    ]


def _states(groups: list[pg.PlacementGroupRecord]) -> dict[str, int]:
    counts = Counter(pg.PlacementGroupState.Name(group.state) for group in groups)
    return {_short(name, "PLACEMENT_GROUP_STATE_"): counts[name] for name in sorted(counts)}


def _short(name: str, prefix: str) -> str:
    return name.removeprefix(prefix)
