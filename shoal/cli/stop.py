"""`shoal stop`."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from shoal.cli import started

GRACE_S_DEFAULT = 10.0


@click.command(
    "stop",
    epilog="""\b
Examples:
  shoal stop
  shoal stop --grace-s 0.5
""",
)
@click.option(
    "--grace-s",
    type=click.FloatRange(0, 3_600),
    default=GRACE_S_DEFAULT,
    show_default=True,
    help="Seconds for an orderly end before SIGKILL.",
)
@click.option("--keep-logs", is_flag=True, help="Do not delete the session's folder.")
def command(grace_s: float, keep_logs: bool) -> None:
    """Ends everything `shoal start` started on this machine, agents before their GCS."""
    found = started.records()
    ended = killed = 0
    for part in ("agent", "gcs"):
        processes = [p for _, record in found for p in record.processes if p.part == part]
        counts = started.end(processes, grace_s)
        ended += counts[0]
        killed += counts[1]
    for path, record in found:
        if not keep_logs:
            shutil.rmtree(Path(path).parent.parent / record.session, ignore_errors=True)
        path.unlink(missing_ok=True)
    if not ended:
        click.echo("nothing started by `shoal start` runs on this machine")
        return
    by_force = f", {killed} of them by force" if killed else ""
    click.echo(f"ended {ended} process{'es' if ended > 1 else ''}{by_force}")
