"""`shoal drain NODE`."""

from __future__ import annotations

import click

from shoal.cli import options, started
from shoal.gcs_calls import DRAIN_REASONS, GcsCalls

DEADLINE_S_DEFAULT = 30.0


@click.command(
    "drain",
    epilog="""\b
Examples:
  shoal drain 3fa9c1 --reason preemption --deadline 120
  shoal drain worker-7 --reason idle
""",
)
@click.argument("node")
@options.address_option
@click.option(
    "--reason",
    type=click.Choice(list(DRAIN_REASONS)),
    required=True,
    help="preemption: the machine goes at the deadline. idle: only if nothing runs there.",
)
@click.option(
    "--deadline",
    "deadline_s",
    type=click.FloatRange(0, 7 * 86_400),
    default=DEADLINE_S_DEFAULT,
    show_default=True,
    help="Seconds from now.",
)
@click.option("--message", default="", help="Shown in status and errors.")
def command(node: str, address: str | None, reason: str, deadline_s: float, message: str) -> None:
    """Lets nothing new onto NODE (id, start of an id, or name) and ends it by the deadline."""
    with GcsCalls(started.find_address(address)) as gcs:
        record = gcs.node_named(node)
        gcs.drain(record.node_id, reason, deadline_s, message)
    click.echo(f"node {record.node_id.hex()} is draining ({reason}), deadline in {deadline_s:g} s")
