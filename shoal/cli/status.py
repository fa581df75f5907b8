"""`shoal status`."""

from __future__ import annotations

from typing import Any

import click

from cluster_api.v1 import gcs_pb2, types_pb2
from cluster_common import resources
from shoal.cli import options, printing, rows, started
from shoal.cli.agent_tables import agent_tables, print_agent_tables
from shoal.cli.scaling import print_scaling, scaling_dict
from shoal.gcs_calls import GcsCalls


@click.command(
    "status",
    epilog="""\b
Examples:
  shoal status
  shoal status -v
  shoal status --json | python -m json.tool
""",
)
@options.address_option
@options.json_option
@click.option("-v", "--verbose", is_flag=True, help="Executors, tables and counters too.")
def command(address: str | None, as_json: bool, verbose: bool) -> None:
    """What the cluster has, what is used, and what waits for what."""
    found = started.find_address(address)
    with GcsCalls(found) as gcs:
        status = gcs.status(verbose=verbose)
        scaling = gcs.autoscaler_status()
        draining = _draining(gcs) if status.nodes_draining else []
        agents = agent_tables(gcs) if verbose else {}
    if as_json:
        plain = status_dict(found, status) | scaling_dict(scaling)
        printing.print_json(plain | {"draining": draining} | ({"agents": agents} if agents else {}))
        return
    click.echo(
        f"cluster {status.cluster_id.hex()[: rows.SHORT_ID]} at {found}, "
        f"up {status.uptime_ms / 1000:.0f} s, life {status.epoch}, storage {status.storage}"
    )
    if status.store_problem:
        click.echo(f"READ-ONLY, the store is lost and writes are refused: {status.store_problem}")
    click.echo(
        f"nodes: {status.nodes_alive} alive, {status.nodes_draining} draining, "
        f"{status.nodes_dead} dead; jobs running: {status.jobs_running}"
    )
    if draining:
        columns = ("node_id", "node_name", "drain_message", "drain_deadline")
        body = [[row[name] for name in columns] for row in draining]
        printing.print_table("draining nodes", ("node", "name", "why", "gone by"), body)
    _print_resources(status)
    _print_counts("actors", dict(status.actors_by_state))
    _print_counts("placement groups", dict(status.groups_by_state))
    _print_waiting(status)
    print_scaling(scaling)
    if verbose:
        _print_insides(status)
        print_agent_tables(agents)


def _draining(gcs: GcsCalls) -> list[rows.Row]:
    nodes = gcs.nodes(alive_only=True, limit=options.LIST_LIMIT_MAX).nodes
    return [rows.node_row(n) for n in nodes if n.state == types_pb2.NODE_STATE_DRAINING]


def status_dict(address: str, status: gcs_pb2.GetStatusResponse) -> dict[str, Any]:
    """For JSON."""
    return {
        "address": address,
        "version": status.version,
        "cluster_id": status.cluster_id.hex(),
        "epoch": status.epoch,
        "session_name": status.session_name,
        "uptime_ms": status.uptime_ms,
        "storage": status.storage,
        "read_only": bool(status.store_problem),
        "store_problem": status.store_problem,
        "nodes": {
            "alive": status.nodes_alive,
            "draining": status.nodes_draining,
            "dead": status.nodes_dead,
        },
        "jobs_running": status.jobs_running,
        "resources": {
            "total": resources.floats(status.total.amounts),
            "used": resources.floats(status.used.amounts),
            "reserved": resources.floats(status.reserved.amounts),
            "available": resources.floats(status.available.amounts),
        },
        "actors_by_state": dict(status.actors_by_state),
        "groups_by_state": dict(status.groups_by_state),
        "demand": [
            {
                "resources": resources.floats(entry.resources.amounts),
                "selector": dict(entry.selector.terms),
                "count": entry.count,
                "infeasible": entry.infeasible,
            }
            for entry in status.demand
        ],
        "pending_groups": [
            {
                "placement_group_id": group.placement_group_id.hex(),
                "name": group.name,
                "reason": group.reason,
                "message": group.message,
            }
            for group in status.pending_groups
        ],
        "executors": [
            {
                "name": one.name,
                "queue_length": one.queue_length,
                "lag_ms": one.lag_ms,
                "lag_max_ms": one.lag_max_ms,
                "handled": one.handled,
                "cpu_ms": one.cpu_ms,
            }
            for one in status.executors
        ],
        "tables": [
            {"name": t.name, "rows": t.rows, "rows_max": t.rows_max, "bytes": t.bytes}
            for t in status.tables
        ],
        "counters": dict(status.counters),
    }


def _print_resources(status: gcs_pb2.GetStatusResponse) -> None:
    parts = [
        resources.floats(part.amounts)
        for part in (status.total, status.used, status.reserved, status.available)
    ]
    body = [
        [name, *(rows.amount_text(name, part.get(name, 0.0)) for part in parts)]
        for name in sorted(parts[0])
        if not resources.is_group_name(name)
    ]
    printing.print_table("resources", ("name", "total", "used", "in groups", "free"), body)


def _print_counts(what: str, counts: dict[str, int]) -> None:
    text = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()) if count)
    click.echo(f"{what}: {text or 'none'}")


def _print_waiting(status: gcs_pb2.GetStatusResponse) -> None:
    body = [
        [
            entry.count,
            rows.amounts_text(resources.floats(entry.resources.amounts)),
            ", ".join(f"{k}: {v}" for k, v in entry.selector.terms.items()),
            "no node can ever hold it" if entry.infeasible else "waits for room",
        ]
        for entry in status.demand
    ]
    printing.print_table("waiting requests", ("count", "shape", "labels", "why"), body)
    groups = [
        [group.placement_group_id.hex(), group.name, group.reason, group.message]
        for group in status.pending_groups
    ]
    printing.print_table("waiting groups", ("id", "name", "reason", "message"), groups)


def _print_insides(status: gcs_pb2.GetStatusResponse) -> None:
    printing.print_table(
        "executors",
        ("name", "queue", "lag ms", "worst ms", "handled", "cpu s"),
        [
            [
                e.name,
                e.queue_length,
                f"{e.lag_ms:.1f}",
                f"{e.lag_max_ms:.1f}",
                e.handled,
                f"{e.cpu_ms / 1000:.1f}",
            ]
            for e in status.executors
        ],
    )
    printing.print_table(
        "tables",
        ("name", "rows", "at most", "bytes"),
        [[t.name, t.rows, t.rows_max or "-", t.bytes or "-"] for t in status.tables],
    )
    counters = [[name, count] for name, count in sorted(status.counters.items())]
    printing.print_table("counters", ("name", "count"), counters)
