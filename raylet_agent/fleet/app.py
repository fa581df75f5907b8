"""Composition root of a fleet: options, standard input and output, process life.

It speaks one JSON object a line: `{"ready": true, "seconds"}` once all agents are in; then
`{"id", "op", …}` on standard input is answered by `{"id", "result"}` or `{"id", "error"}`. It ends
with its standard input.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from typing import Any

import click
import uvloop

from cluster_common.transport.descriptors import raise_descriptor_limit
from cluster_common.transport.logs import set_up_logs
from raylet_agent import exit_codes
from raylet_agent import settings as agent_settings
from raylet_agent.fleet import limits
from raylet_agent.fleet.fleet import Fleet
from raylet_agent.fleet.settings import FleetSettings

_EPILOG = "Example: python -m raylet_agent.fleet --gcs-address 127.0.0.1:6380 --nodes 1000"


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog=_EPILOG,
)
@click.option("--gcs-address", required=True, help="host:port of the GCS.")
@click.option("--nodes", type=int, required=True, help="How many agents.")
@click.option("--first", default=0, help="Number of the first agent, for further fleets.")
@click.option("--connections", default=100, help="Connections to the GCS; 0: one for each agent.")
@click.option("--own-streams", is_flag=True, help="One stream per agent, not per connection.")
@click.option("--rack-size", default=18, help="Nodes with the same label rack; 0: no such label.")
@click.option("--num-cpus", type=float, default=8.0, help="CPUs of each node.")
@click.option("--num-gpus", type=float, default=0.0, help="GPUs of each node, whole.")
@click.option("--resources", default="", help="Further resources of each, JSON: '{\"slot\": 1}'.")
@click.option("--labels", default="", help="key=value,key=value for every node.")
@click.option("--leases", is_flag=True, help="Each agent listens and grants leases.")
@click.option("--schedulers", default=0, help="Agents with the scheduler role, the first ones.")
@click.option("--sync-delay", "sync_delay_s", default=0.0, help="Seconds snapshots are held back.")
@click.option("--name", default="fleet", help="Node names are NAME-0, NAME-1, …")
@click.option("--log-level", default="ERROR", help="DEBUG, INFO, WARNING or ERROR.")
def main(
    *,
    num_cpus: float,
    num_gpus: float,
    resources: str,
    labels: str,
    gcs_address: str,
    **options: Any,
) -> None:
    """Runs many agents with faked workers in the foreground, for tests and measurements."""
    try:
        settings = FleetSettings(
            gcs_address=agent_settings.check_address("--gcs-address", gcs_address),
            total=agent_settings.parse_total(
                num_cpus=num_cpus,
                num_gpus=num_gpus,
                memory=0,
                object_store_memory=0,
                custom=resources,
            ),
            labels=agent_settings.parse_labels(labels),
            **options,
        )
        settings.check(raise_descriptor_limit())
        set_up_logs("fleet", settings.log_level)
    except ValueError as error:
        click.echo(f"fleet: {error}", err=True)
        sys.exit(exit_codes.BAD_OPTION)
    gc.set_threshold(*limits.GC_THRESHOLDS)
    sys.exit(uvloop.run(_serve(settings)))


async def _serve(settings: FleetSettings) -> int:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    commands = await _commands(ended)
    fleet = Fleet(settings)
    try:
        seconds = await fleet.start()
    except (RuntimeError, TimeoutError, OSError) as error:
        reason = str(error) or f"not all of {settings.nodes} agents were taken in in time"
        click.echo(f"fleet: {reason}", err=True)
        await fleet.close()
        return exit_codes.FAILED
    gc.collect()
    gc.freeze()
    _say({"ready": True, "seconds": seconds, "pid": os.getpid()})
    server = loop.create_task(_answer(fleet, commands, ended))
    await ended.wait()
    server.cancel()
    await asyncio.gather(server, return_exceptions=True)
    await fleet.close()
    return exit_codes.OK


async def _commands(ended: asyncio.Event) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=limits.COMMAND_BYTES_MAX)
    protocol = _StandardInput(reader, ended)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    return reader


class _StandardInput(asyncio.StreamReaderProtocol):
    """Whoever started the fleet holds the other end: when that is gone, the fleet ends."""

    def __init__(self, reader: asyncio.StreamReader, ended: asyncio.Event) -> None:
        super().__init__(reader)
        self._ended = ended

    def eof_received(self) -> bool:
        self._ended.set()
        return bool(super().eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()
        super().connection_lost(exc)


async def _answer(fleet: Fleet, commands: asyncio.StreamReader, ended: asyncio.Event) -> None:
    while line := await commands.readline():
        number: object = None
        try:
            command: dict[str, Any] = json.loads(line)
            number = command.pop("id", None)
            result = await fleet.command(command.pop("op", ""), command)
        except (ValueError, TypeError, TimeoutError) as error:
            _say({"id": number, "error": str(error) or type(error).__name__})
        else:
            _say({"id": number, "result": result})
    ended.set()


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
