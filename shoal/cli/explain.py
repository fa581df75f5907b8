"""`shoal explain PG`."""

from __future__ import annotations

from typing import Any

import click

from cluster_api.v1 import placement_groups_pb2 as groups_pb2
from cluster_common import ids, resources
from shoal.cli import options, printing, rows, started
from shoal.gcs_calls import GcsCalls


@click.command(
    "explain",
    epilog="""\b
Examples:
  shoal explain training-gang
  shoal explain 6f1c…(48 hex digits) --json
""",
)
@click.argument("group", metavar="PG")
@options.address_option
@options.json_option
@click.option("--namespace", help="Of the group's name; without it any will do.")
def command(group: str, address: str | None, as_json: bool, namespace: str | None) -> None:
    """Says why a placement group (id or name) is where it is, or what it waits for."""
    with GcsCalls(started.find_address(address)) as gcs:
        answer = gcs.explain(_group_id(gcs, group, namespace))
    if not answer.found:
        raise click.ClickException(f"placement group {group!r} is not known")
    if as_json:
        printing.print_json(explanation_dict(answer))
        return
    click.echo(f"{rows.group_state(answer.state)}: {answer.reason}")
    click.echo(answer.message)
    body = [
        [
            bundle.index,
            rows.amounts_text(resources.floats(bundle.resources.amounts)),
            bundle.placed_on.hex()[: rows.SHORT_ID] or "-",
            bundle.fitting_nodes,
            ", ".join(f"{count} {token}" for token, count in sorted(bundle.rejected.items())),
        ]
        for bundle in answer.bundles
    ]
    printing.print_table("bundles", ("index", "needs", "placed on", "nodes fit", "refused"), body)
    if answer.HasField("best_domain"):
        best = answer.best_domain
        click.echo(
            f"best {best.label}: {best.value or 'none'}, "
            f"{best.fitting} of {best.wanted} bundles fit"
            + (f"; it lacks {best.lacks}" if best.lacks else "")
        )
    for blocker in answer.blocked_by:
        click.echo(f"blocked by group {blocker.hex()}")


def explanation_dict(answer: groups_pb2.ExplainResponse) -> dict[str, Any]:
    """For JSON."""
    best = answer.best_domain
    return {
        "state": rows.group_state(answer.state),
        "reason": answer.reason,
        "message": answer.message,
        "fits": answer.fits,
        "bundles": [
            {
                "index": bundle.index,
                "resources": resources.floats(bundle.resources.amounts),
                "placed_on": bundle.placed_on.hex(),
                "fitting_nodes": bundle.fitting_nodes,
                "rejected": dict(bundle.rejected),
            }
            for bundle in answer.bundles
        ],
        "best_domain": {
            "label": best.label,
            "value": best.value,
            "fitting": best.fitting,
            "wanted": best.wanted,
            "lacks": best.lacks,
        }
        if answer.HasField("best_domain")
        else None,
        "blocked_by": [blocker.hex() for blocker in answer.blocked_by],
        "overtaken": answer.overtaken,
    }


def _group_id(gcs: GcsCalls, text: str, namespace: str | None) -> bytes:
    named = _named(gcs, text, namespace)
    if len(named) == 1:
        return named[0].placement_group_id
    if named:
        places = ", ".join(f"{s.namespace!r}: {s.placement_group_id.hex()}" for s in named)
        raise click.ClickException(
            f"several placement groups are named {text!r}; say --namespace or the id ({places})"
        )
    try:
        return ids.parse_hex(text, ids.TASK_ID_BYTES, "placement group")
    except ValueError as error:
        where = "" if namespace is None else f" in namespace {namespace!r}"
        raise click.ClickException(
            f"no placement group is named {text!r}{where}; as an id: {error}"
        ) from error


def _named(gcs: GcsCalls, name: str, namespace: str | None) -> list[groups_pb2.PlacementGroupSpec]:
    """Living groups of this name. Most drivers have a namespace that nobody knows by heart."""
    if namespace is not None:
        record = gcs.group(name=name, namespace=namespace)
        return [] if record is None else [record.spec]
    gone = groups_pb2.PLACEMENT_GROUP_STATE_REMOVED
    return [
        record.spec
        for record in gcs.groups().groups
        if record.spec.name == name and record.state != gone
    ]
