"""`python -m gcs_service.store_tool`: looks at, copies out and fills a store while no service runs.

What `shoal store` calls. Rows travel as JSON lines, keys and values in base64, after one header
line. SQLite refuses while a service holds the file. A Redis service that runs is not disturbed by
who looks; an import that has something to write fences it off.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import click
import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from gcs_service.core import kv_table, tables
from gcs_service.core.tables import Write
from gcs_service.settings import REDIS_SCHEMES
from gcs_service.shell.storage.protocol import Storage, StorageError
from gcs_service.shell.storage.redis_storage import RedisStorage, without_password
from gcs_service.shell.storage.sqlite_storage import FILE_NAME, SqliteStorage

FORMAT = "shoal-store"
VERSION = 1
IMPORT_BATCH_ROWS = 1_000
"""Rows of one transaction of an import."""
SHOWN_ROWS_DEFAULT = 20

MESSAGES: dict[str, Any] = {
    tables.JOB: g.JobRecord,
    tables.NODE: t.NodeRecord,
    tables.ACTOR: t.ActorRecord,
    tables.ACTOR_SPEC: g.CreateDetachedActorRequest,
    tables.PLACEMENT_GROUP: pg.PlacementGroupRecord,
    tables.DRAIN: ns.DrainCommand,
}
"""Tables whose rows are messages, shown by their fields."""

AUTOSCALER_MESSAGES: dict[bytes, Any] = {
    tables.CONSTRAINT: auto.ClusterResourceConstraint,
    tables.CLUSTER_CONFIG: auto.ClusterConfig,
}
NUMBERS = (tables.EPOCH, tables.LAST_JOB)


def open_place(place: str, *, create: bool = False) -> Storage:
    """The store at a folder or URL.

    Raises:
        StorageError: it cannot be opened, or there is none and none is wanted.
    """
    if place.startswith(REDIS_SCHEMES):
        return RedisStorage(place, takes_over=False)
    if not create and not (Path(place) / FILE_NAME).exists():
        raise StorageError(f"there is no store in {place}: no file {FILE_NAME}")
    return SqliteStorage(place)


def summary(storage: Storage, place: str) -> dict[str, Any]:
    """Whose store this is, and rows and bytes of each table."""
    cluster = dict(storage.load(tables.CLUSTER))
    sizes: dict[str, dict[str, int]] = {}
    for table in tables.ALL_TABLES:
        rows = storage.load(table)
        sizes[table] = {"rows": len(rows), "bytes": sum(len(k) + len(v) for k, v in rows)}
    shown = without_password(place) if place.startswith(REDIS_SCHEMES) else place
    return {
        "place": shown,
        "cluster_id": cluster.get(tables.CLUSTER_ID, b"").hex(),
        "epoch": int.from_bytes(cluster.get(tables.EPOCH, b""), "big"),
        "session_name": cluster.get(tables.SESSION_NAME, b"").decode(),
        "tables": sizes,
    }


def shown_rows(storage: Storage, table: str, limit: int) -> Iterator[dict[str, Any]]:
    """The first rows of a table, by their fields where they are messages."""
    for key, value in storage.load(table)[:limit]:
        try:
            body = _shown(table, key, value)
        except (ValueError, DecodeError):
            body = value.hex()  # written by another version: shown as it is
        yield {"table": table, "key": key.hex(), "value": body}


def _shown(table: str, key: bytes, value: bytes) -> Any:
    message = AUTOSCALER_MESSAGES.get(key) if table == tables.AUTOSCALER else MESSAGES.get(table)
    if message is not None:
        parsed = message.FromString(value)
        return json_format.MessageToDict(parsed, preserving_proto_field_name=True)
    if table == tables.KV:
        return kv_table.shown_row(key, value)
    if table == tables.OWNER or key in NUMBERS:
        return int.from_bytes(value, "big")
    return value.decode() if key == tables.SESSION_NAME else value.hex()


def exported(storage: Storage, place: str) -> Iterator[dict[str, Any]]:
    """A header, then every row of every table."""
    about = summary(storage, place)
    yield {"format": FORMAT, "version": VERSION, **about}
    for table in tables.ALL_TABLES:
        for key, value in storage.load(table):
            yield {"table": table, "key": _text(key), "value": _text(value)}


def imported(storage: Storage, lines: Iterable[str], *, replace: bool) -> int:
    """Writes exported rows; how many.

    Raises:
        ValueError: no export, an unknown table, or rows are there already and `replace` is not set.
    """
    lines = iter(lines)
    header = _decoded(next(lines, ""), 1)
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise ValueError(f"the first line is no header of {FORMAT}, version {VERSION}")
    writes = [_write_of(line, number) for number, line in enumerate(lines, 2) if line.strip()]
    wanted = sum(size["rows"] for size in header["tables"].values())
    if len(writes) != wanted:
        raise ValueError(f"the export has {len(writes)} rows, its header says {wanted}")
    if any(storage.load(table) for table in tables.ALL_TABLES):
        if not replace:
            raise ValueError("the store has rows already; --replace forgets them first")
        storage.take_over()
        storage.wipe()
    storage.take_over()
    for first in range(0, len(writes), IMPORT_BATCH_ROWS):
        storage.commit(writes[first : first + IMPORT_BATCH_ROWS])
    return len(writes)


def _write_of(line: str, number: int) -> Write:
    row = _decoded(line, number)
    try:
        key, value = (base64.b64decode(row[name], validate=True) for name in ("key", "value"))
        table = row["table"]
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"line {number}: no row with table, key and value: {error}") from error
    if table not in tables.ALL_TABLES:
        raise ValueError(f"line {number}: table {table!r} is not one of {tables.ALL_TABLES}")
    return Write(table, key, value)


def _decoded(line: str, number: int) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError(f"line {number} is no JSON object: {error}") from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _print_lines(rows: Iterable[dict[str, Any]], target: TextIO) -> None:
    target.writelines(msgspec.json.encode(row).decode() + "\n" for row in rows)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Offline work on a control service's store: a folder (SQLite) or a redis:// URL."""


@main.command()
@click.argument("place")
@click.option("--table", type=click.Choice(tables.ALL_TABLES), help="Its first rows too.")
@click.option("--limit", default=SHOWN_ROWS_DEFAULT, show_default=True, help="Rows shown.")
def inspect(place: str, table: str | None, limit: int) -> None:
    """Prints what is stored, as JSON."""

    def work() -> None:
        storage = open_place(place)
        try:
            _print_lines([summary(storage, place)], sys.stdout)
            if table is not None:
                _print_lines(shown_rows(storage, table, limit), sys.stdout)
        finally:
            storage.close()

    _explained(work)


@main.command("export")
@click.argument("place")
@click.option("--output", type=click.Path(path_type=Path), help="File; standard output if none.")
def export_rows(place: str, output: Path | None) -> None:
    """Writes all rows as JSON lines."""

    def work() -> None:
        storage = open_place(place)
        try:
            if output is None:
                _print_lines(exported(storage, place), sys.stdout)
            else:
                with output.open("w") as target:
                    _print_lines(exported(storage, place), target)
        finally:
            storage.close()

    _explained(work)


@main.command("import")
@click.argument("place")
@click.option("--input", "source", type=click.Path(exists=True, path_type=Path), help="File.")
@click.option("--replace", is_flag=True, help="Forget what is stored there first.")
def import_rows(place: str, source: Path | None, *, replace: bool) -> None:
    """Reads JSON lines of an export into a store."""

    def work() -> None:
        storage = open_place(place, create=True)
        try:
            lines = source.read_text().splitlines() if source is not None else sys.stdin
            click.echo(f"{imported(storage, lines, replace=replace)} rows imported", err=True)
        finally:
            storage.close()

    _explained(work)


def _explained(work: Any) -> None:
    try:
        work()
    except (StorageError, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main(prog_name="shoal store")
