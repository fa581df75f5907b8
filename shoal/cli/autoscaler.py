"""`shoal autoscaler`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from shoal.cli import options, started


@click.command(
    "autoscaler",
    epilog="""\b
Examples:
  shoal autoscaler --config nodes.yaml
  shoal autoscaler --config nodes.json --address 10.0.0.5:6380

\b
nodes.yaml:
  provider: {type: local}
  idle_timeout_s: 60
  node_types:
    small: {resources: {CPU: 2}, min_nodes: 1, max_nodes: 8}
    trainer: {resources: {CPU: 1, trainer: 1}, labels: {rack: r1}, max_nodes: 32}
""",
)
@click.option(
    "--config",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML or JSON file: provider, idle_timeout_s, node_types.",
)
@options.address_option
@click.option("--check", is_flag=True, help="Only check the configuration.")
@click.option("--log-level", default="INFO", show_default=True)
def command(path: Path, address: str | None, check: bool, log_level: str) -> None:
    """Buys nodes for what waits and gives idle ones back. Runs until stopped."""
    gcs_address = "127.0.0.1:1" if check else started.find_address(address)
    arguments = ["--config", str(path), "--address", gcs_address, "--log-level", log_level]
    arguments += ["--check"] if check else []
    # The autoscaler is a service of its own: this process becomes it, signals go straight to it.
    os.execv(sys.executable, [sys.executable, "-m", "autoscaler", *arguments])  # noqa: S606 - our own program
