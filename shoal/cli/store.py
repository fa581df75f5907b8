"""`shoal store`: offline work on the control service's store, done by the service's own tool."""

from __future__ import annotations

import subprocess
import sys

import click

TOOL = "gcs_service.store_tool"


@click.command(
    "store",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
    epilog="""\b
Examples:
  shoal store inspect /var/lib/shoal --table placement_group
  shoal store export /var/lib/shoal --output rows.jsonl
  shoal store import redis://127.0.0.1:6379/0 --input rows.jsonl
""",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Inspects, exports or imports the store of a GCS that does not run: folder or redis:// URL."""
    # A process of its own: the public face starts the services, it does not import them.
    program = [sys.executable, "-m", TOOL, *(arguments or ("--help",))]
    sys.exit(subprocess.run(program, check=False).returncode)  # noqa: S603 - our own tool
