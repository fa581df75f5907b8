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
@click.option("--namespace", default="", help="Of the group's name.")
def command(group: str, address: str | None, as_json: bool, namespace: str) -> None:
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
            f"best {best.label}: {best.value}, {best.fitting} of {best.wanted} bundles fit"
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


def _group_id(gcs: GcsCalls, text: str, namespace: str) -> bytes:
    record = gcs.group(name=text, namespace=namespace)
    if record is not None:
        return record.spec.placement_group_id
    try:
        return ids.parse_hex(text, ids.TASK_ID_BYTES, "placement group")
    except ValueError as error:
        raise click.ClickException(
            f"no placement group is named {text!r} in namespace {namespace!r}; as an id: {error}"
        ) from error
