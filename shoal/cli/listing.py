"""`shoal list nodes|actors|placement-groups`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from shoal.cli import options, printing, rows, started
from shoal.cli.rows import SHORT_ID, Row
from shoal.gcs_calls import GcsCalls

Fetch = Callable[[GcsCalls, int], tuple[list[Row], int]]

_COLUMNS: dict[str, Sequence[str]] = {
    "nodes": ("node_id", "state", "node_name", "address", "total", "available", "labels", "why"),
    "actors": ("actor_id", "class_name", "state", "name", "node_id", "pid", "restarts", "why"),
    "placement-groups": ("placement_group_id", "name", "state", "strategy", "nodes", "reason"),
}


def _nodes(gcs: GcsCalls, limit: int) -> tuple[list[Row], int]:
    answer = gcs.nodes(limit=limit)
    return [rows.node_row(node) for node in answer.nodes], answer.total


def _actors(gcs: GcsCalls, limit: int) -> tuple[list[Row], int]:
    answer = gcs.actors(limit=limit)
    return [rows.actor_row(actor) for actor in answer.actors], answer.total


def _groups(gcs: GcsCalls, limit: int) -> tuple[list[Row], int]:
    answer = gcs.groups(limit=limit)
    return [rows.group_row(group) for group in answer.groups], answer.total


_FETCH: dict[str, Fetch] = {"nodes": _nodes, "actors": _actors, "placement-groups": _groups}


@click.command(
    "list",
    epilog="""\b
Examples:
  shoal list nodes
  shoal list actors --limit 20
  shoal list placement-groups --json
""",
)
@click.argument("what", type=click.Choice(list(_FETCH)))
@options.address_option
@options.json_option
@click.option(
    "--limit",
    type=click.IntRange(1, options.LIST_LIMIT_MAX),
    default=options.LIST_LIMIT_DEFAULT,
    show_default=True,
    help="Rows at most, newest first.",
)
def command(what: str, address: str | None, as_json: bool, limit: int) -> None:
    """Lists nodes, actors or placement groups."""
    with GcsCalls(started.find_address(address)) as gcs:
        found, total = _FETCH[what](gcs, limit)
    found = found[:limit]
    if as_json:
        printing.print_json({"total": total, "truncated": total > len(found), "rows": found})
        return
    columns = _COLUMNS[what]
    printing.print_table(what, columns, [[_cell(row, name) for name in columns] for row in found])
    if total > len(found):
        click.echo(f"{len(found)} of {total}; --limit shows more")


def _cell(row: Row, column: str) -> str:
    if column == "nodes":
        return ", ".join(node[:SHORT_ID] or "-" for node in row["bundle_nodes"])
    if column == "why":
        return row["death_cause"] or row.get("drain_message", "")
    value = row[column]
    if column == "node_id":
        return value[:SHORT_ID]
    if column in ("total", "available"):
        return rows.amounts_text(value)
    if column == "labels":
        return ", ".join(f"{k}={v}" for k, v in value.items() if not k.startswith("shoal.io/"))
    return str(value)
