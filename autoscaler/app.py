"""Composition root of the autoscaler: options, configuration file, process life."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import grpc
import uvloop
import yaml

from autoscaler.core.config import AutoscalerConfig, parse_config
from autoscaler.shell.gcs import Gcs
from autoscaler.shell.local_provider import LocalOptions, LocalProvider
from autoscaler.shell.loop import AutoscalerLoop
from autoscaler.shell.provider import Provider
from cluster_common.transport.logs import get_logger, set_up_logs

log = get_logger()

EXIT_ORDERLY = 0
EXIT_REFUSED = 1
EXIT_BAD_OPTION = 2
"""Exit codes: 1 the cluster refused us (token), 2 a wrong option or configuration."""

PROVIDERS = ("local",)
MakeProvider = Callable[[str], Provider]


def read_config(path: Path) -> AutoscalerConfig:
    """The configuration in a YAML or JSON file.

    Raises:
        ValueError: it cannot be read, or is wrong; names the file and the place.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--config {path}: {error}") from None
    raw: Any
    try:
        raw = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (json.JSONDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} is not valid {path.suffix[1:] or 'YAML'}: {error}") from None
    try:
        return parse_config(raw)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def provider_maker(config: AutoscalerConfig, address: str) -> MakeProvider:
    """What makes the configured provider, its options checked.

    Raises:
        ValueError: an unknown provider, or a wrong option of it.
    """
    kind = config.provider["type"]
    if kind not in PROVIDERS:
        raise ValueError(f"provider.type {kind!r} is not one of {', '.join(PROVIDERS)}")
    options = LocalOptions(config.provider)
    return lambda session_name: LocalProvider(options, address, session_name)


async def serve(
    config: AutoscalerConfig, address: str, make_provider: MakeProvider, parent_fd: int
) -> int:
    """Runs until a signal or the parent's end; then what the provider started is gone."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if parent_fd >= 0:
        loop.add_reader(parent_fd, _parent_spoke, parent_fd, ended)
    gcs = Gcs(address)
    scaler = AutoscalerLoop(config, gcs, make_provider)
    work = asyncio.ensure_future(scaler.run())
    end = asyncio.ensure_future(ended.wait())
    log.info("autoscaler_runs", address=address, node_types=list(config.node_types))
    try:
        await asyncio.wait([work, end], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
    except grpc.RpcError as error:
        click.echo(f"autoscaler: the GCS at {address} refused: {error.details()}", err=True)
        return EXIT_REFUSED
    finally:
        for task in (work, end):
            task.cancel()
        await asyncio.gather(work, end, return_exceptions=True)
        await scaler.close()
        await gcs.close()
    return EXIT_ORDERLY


def _parent_spoke(descriptor: int, ended: asyncio.Event) -> None:
    # The parent writes nothing: readable means its end of the pipe closed.
    if not os.read(descriptor, 4_096):
        asyncio.get_running_loop().remove_reader(descriptor)
        ended.set()


@click.command(context_settings={"show_default": True})
@click.option("--config", "path", required=True, help="YAML or JSON file with the node types.")
@click.option("--address", required=True, help="host:port of the GCS.")
@click.option("--log-level", default="INFO", help="DEBUG, INFO, WARNING or ERROR.")
@click.option("--die-with-parent-fd", default=-1, help="End when this descriptor is at its end.")
@click.option("--check", is_flag=True, help="Only check the configuration.")
def main(path: str, address: str, log_level: str, die_with_parent_fd: int, check: bool) -> None:  # noqa: FBT001 - click passes options by name
    """Buys nodes for what waits, gives idle ones back; runs in the foreground."""
    try:
        config = read_config(Path(path))
        make_provider = provider_maker(config, address)
        if not check:
            set_up_logs("autoscaler", log_level)
    except ValueError as error:
        click.echo(f"autoscaler: {error}", err=True)
        sys.exit(EXIT_BAD_OPTION)
    if check:
        click.echo(f"{path}: {len(config.node_types)} node types, all well")
        return
    sys.exit(uvloop.run(serve(config, address, make_provider, die_with_parent_fd)))


if __name__ == "__main__":
    main()
