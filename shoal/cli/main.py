"""Entry point: finds the command, turns errors into one sentence and an exit code.

Exit codes: 0 done, 1 the cluster could not be asked or said no, 2 wrong options, 130 Ctrl-C.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

EXIT_INTERRUPTED = 130

COMMANDS = {
    "start": "shoal.cli.start",
    "stop": "shoal.cli.stop",
    "status": "shoal.cli.status",
    "list": "shoal.cli.listing",
    "explain": "shoal.cli.explain",
    "drain": "shoal.cli.drain",
    "store": "shoal.cli.store",
    "autoscaler": "shoal.cli.autoscaler",
    "check-ledger": "shoal.cli.check_ledger",
    "healthcheck": "shoal.cli.healthcheck",
    "demo": "shoal.cli.demo",
    "fleet": "shoal.cli.fleet",
    "simulate": "shoal.cli.simulate",
    "completion": "shoal.cli.completion",
}
"""Command -> module, imported when it is used: no command loads what another one needs."""


class LazyGroup(click.Group):
    """Loads a command's module when the command is asked for; each has it as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None when there is no such."""
        del ctx
        module = COMMANDS.get(cmd_name)
        return None if module is None else importlib.import_module(module).command

    def invoke(self, ctx: click.Context) -> Any:
        """Runs it; what went wrong at the cluster becomes one sentence."""
        # Late: grpc takes 0.1 s to import and --help does not need it.
        from shoal.child_process import ProcessStartError
        from shoal.gcs_calls import ClusterCallError

        try:
            return super().invoke(ctx)
        except (ClusterCallError, ProcessStartError) as error:
            raise click.ClickException(str(error)) from error
        except ValueError as error:
            raise click.UsageError(str(error)) from error


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  shoal start --head                     a cluster on this machine
  shoal start --address 10.0.0.1:7400    this machine joins one
  shoal status                           what it has and what waits
  shoal list nodes --json
  shoal stop
""",
)
@click.version_option(package_name="shoal")
def group() -> None:
    """Shoal: clusters of Python processes that start work in gangs."""


def main() -> None:
    """The console script."""
    try:
        code = group.main(prog_name="shoal", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:  # click makes it of Ctrl-C, and would end with 1
        code = EXIT_INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)
