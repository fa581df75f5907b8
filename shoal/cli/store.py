"""`shoal store`: offline work on the control service's store, done by the service's own tool."""

from __future__ import annotations

import subprocess
import sys

import click

TOOL = "gcs_service.store_tool"


@click.group(
    "store",
    epilog="""\b
Examples:
  shoal store inspect /var/lib/shoal --table placement_group
  shoal store export /var/lib/shoal --output rows.jsonl
  shoal store import redis://127.0.0.1:6379/0 --input rows.jsonl
""",
)
def command() -> None:
    """Looks into, copies or fills the store (folder or redis:// URL) of a GCS that does not run.

    Who only looks into Redis does not disturb a GCS that runs.
    """


def _passed_on(name: str, about: str) -> None:
    @command.command(
        name,
        help=about,
        context_settings={"ignore_unknown_options": True},
        add_help_option=False,
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def run(arguments: tuple[str, ...]) -> None:
        # A process of its own: the public face starts the services, it does not import them.
        program = [sys.executable, "-m", TOOL, name, *arguments]
        sys.exit(subprocess.run(program, check=False).returncode)  # noqa: S603 - our own tool

    del run  # the group has it


_passed_on("inspect", "Prints whose store it is and the rows of each table, as JSON.")
_passed_on("export", "Writes all rows as JSON lines.")
_passed_on("import", "Reads the JSON lines of an export.")
