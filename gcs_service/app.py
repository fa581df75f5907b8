"""Composition root of the control service: options, process life, port file. No decisions."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from pathlib import Path

import click
import uvloop

from cluster_common.transport import auth
from cluster_common.transport.descriptors import raise_descriptor_limit
from cluster_common.transport.logs import get_logger, set_up_logs
from gcs_service import limits
from gcs_service.settings import STORAGES, SYNC_SCOPES, GcsSettings, parse_assignments
from gcs_service.shell import boot
from gcs_service.shell.control_service import ControlService
from gcs_service.shell.storage.protocol import StorageError
from gcs_service.shell.storage.redis_storage import without_password

log = get_logger()

EXIT_ORDERLY = 0
EXIT_BAD_OPTION = 2
EXIT_CANNOT_START = 3
EXIT_STORAGE_LOST = 4
"""Exit codes: 2 a wrong option, 3 no port or no store, 4 the store was given up: another
service took it, or too much waited for it."""


async def serve(settings: GcsSettings) -> int:
    """Runs until a signal, the parent's end, or the loss of the store; the exit code."""
    storage = boot.open_storage(settings)
    service = ControlService(settings, storage)
    port = await service.start()
    gc.freeze()
    gc.set_threshold(*limits.GC_THRESHOLDS)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if settings.die_with_parent_fd >= 0:
        loop.add_reader(settings.die_with_parent_fd, _parent_spoke, settings, ended)
    address = f"{settings.host}:{port}"
    if settings.port_file:
        write_atomically(Path(settings.port_file), address)
    identity = service.identity
    log.info(
        "gcs_serving",
        address=address,
        cluster_id=identity.cluster_id.hex(),
        epoch=identity.epoch,
        session_name=identity.session_name,
        storage=storage.name,
    )
    waits = [asyncio.ensure_future(event.wait()) for event in (ended, service.failed)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    lost = service.failed.is_set()
    log.info("gcs_stopping", storage_lost=lost)
    await service.stop()
    return EXIT_STORAGE_LOST if lost else EXIT_ORDERLY


def _parent_spoke(settings: GcsSettings, ended: asyncio.Event) -> None:
    # The parent writes nothing: readable means its end of the pipe closed.
    if not os.read(settings.die_with_parent_fd, 4_096):
        asyncio.get_running_loop().remove_reader(settings.die_with_parent_fd)
        ended.set()


def write_atomically(path: Path, text: str) -> None:
    """A reader sees the whole text or no file."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(path)


@click.command(
    epilog="Example: python -m gcs_service --port 6380 --storage-path /var/lib/shoal",
    context_settings={"show_default": True},
)
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", default=0, help="Port to listen on; 0 picks a free one.")
@click.option("--storage", default="sqlite", type=click.Choice(STORAGES), help="Where tables live.")
@click.option("--storage-path", default="", help="SQLite's folder or a redis:// URL.")
@click.option(
    "--kv-quota",
    "kv_quota_bytes",
    default=limits.KV_NAMESPACE_BYTES_MAX,
    help="Bytes that one namespace of the key-value store may hold.",
)
@click.option(
    "--history-rows",
    default=0,
    help="Finished jobs, and dead actors, kept for lists; 0: 1,000 and 10,000.",
)
@click.option("--wipe", is_flag=True, help="Forget everything stored: a new cluster begins.")
@click.option("--port-file", default="", help="Written with host:port when the service answers.")
@click.option("--session-name", default="", help="Name of the cluster's session, for folders.")
@click.option("--die-with-parent-fd", default=-1, help="End when this descriptor is at its end.")
@click.option("--log-level", default="INFO", help="DEBUG, INFO, WARNING or ERROR.")
@click.option(
    "--sync-scope",
    default="schedulers",
    type=click.Choice(SYNC_SCOPES),
    help="Who receives the views of other nodes.",
)
@click.option(
    "--ping-interval",
    default=limits.PING_INTERVAL_MS / 1_000,
    help="Seconds of silence after which a node is pinged.",
)
@click.option("--set", "assignments", multiple=True, help="name=value, handed to every agent.")
def main(assignments: tuple[str, ...], **options: object) -> None:
    """Runs the control service of one cluster in the foreground."""
    try:
        node_settings = parse_assignments(assignments)
        settings = GcsSettings(node_settings=node_settings, **options)  # pyright: ignore[reportArgumentType] - click has typed them
        settings.check()
        auth.require_token_for(settings.host)
        set_up_logs("gcs", settings.log_level)
    except ValueError as error:
        click.echo(f"gcs: {error}", err=True)
        sys.exit(EXIT_BAD_OPTION)
    raise_descriptor_limit()
    sys.setswitchinterval(limits.SWITCH_INTERVAL_SECONDS)
    shown = {name: getattr(settings, name) for name in settings.__struct_fields__}
    if settings.storage == "redis":
        shown["storage_path"] = without_password(settings.storage_path)
    log.info("gcs_settings", **shown)
    try:
        code = uvloop.run(serve(settings))
    except (OSError, StorageError) as error:
        click.echo(f"gcs: {error}", err=True)
        sys.exit(EXIT_CANNOT_START)
    sys.exit(code)


if __name__ == "__main__":
    main()
