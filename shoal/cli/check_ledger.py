"""`shoal check-ledger`."""

from __future__ import annotations

import click

from shoal.cli import options, printing, started
from shoal.gcs_calls import GcsCalls
from shoal.ledger_check import settled_report


@click.command(
    "check-ledger",
    epilog="""\b
Examples:
  shoal check-ledger
  shoal check-ledger --json
""",
)
@options.address_option
@options.json_option
def command(address: str | None, as_json: bool) -> None:
    """Checks that every node's books agree with themselves and with the GCS. Exit code 1 if not."""
    with GcsCalls(started.find_address(address)) as gcs:
        report = settled_report(gcs)
    if as_json:
        printing.print_json(report.to_dict())
    elif not report.differences:
        click.echo(f"the books of {report.nodes} nodes and {report.bundles} bundles agree")
    else:
        for difference in report.differences:
            click.echo(difference)
    if report.differences:
        raise click.exceptions.Exit(1)
