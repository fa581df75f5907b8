"""Every table of the core with its rows and its cap, for `shoal status -v` (FIELD_REPORTS O-17)."""

from __future__ import annotations

from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core import tables
from gcs_service.core.control_core import ControlCore
from gcs_service.core.placement.limits import GROUPS_MAX, REMOVED_GROUPS_MAX

Row = tuple[str, int, int]
"""Name, rows, and how many there can be."""


def rows_of(core: ControlCore) -> list[Row]:
    """Tables first, then indexes and memos. An index of a table has the table's cap."""
    return [*_tables(core), *_watches(core), *core.placement.bounds(), *_liveness(core)]


def _tables(core: ControlCore) -> list[Row]:
    nodes, jobs, actors = core.membership.nodes, core.jobs, core.actors
    groups = core.placement.records_count
    return [
        (tables.NODE, nodes.alive_count, limits.NODES_MAX),
        ("node_dead", nodes.dead_count, limits.DEAD_NODES_MAX),
        (tables.DRAIN, core.membership.drains_count, limits.NODES_MAX),
        (tables.JOB, len(jobs), limits.JOBS_RUNNING_MAX + jobs.finished_max),
        ("job_finished", len(jobs) - jobs.running_count, jobs.finished_max),
        (tables.ACTOR, len(actors), limits.ACTORS_MAX),
        ("actor_dead", actors.by_state.get(t.ACTOR_STATE_DEAD, 0), actors.dead_max),
        (tables.ACTOR_SPEC, len(core.detached), limits.ACTORS_MAX),
        ("actor_waiting", core.detached.waiting_count, limits.ACTORS_MAX),
        (tables.PLACEMENT_GROUP, groups, GROUPS_MAX + REMOVED_GROUPS_MAX),
        (tables.OWNER, len(core.owners), limits.OWNER_TOMBSTONES_MAX),
    ]


def _watches(core: ControlCore) -> list[Row]:
    return [
        ("group_watch", core.groups.watches, limits.WATCHES_MAX),
        ("actor_watch", len(core.detached.watchers), limits.WATCHES_MAX),
        ("driver_watch", len(core.drivers), limits.JOBS_RUNNING_MAX),
    ]


def _liveness(core: ControlCore) -> list[Row]:
    liveness = core.membership.liveness
    return [
        ("liveness", len(liveness), limits.NODES_MAX),
        ("liveness_deadline", liveness.deadlines_count, limits.NODES_MAX * limits.DEADLINES_SHARE),
    ]
