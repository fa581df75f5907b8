"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

PIPE_COLUMNS = 200
"""Width when the output is no terminal, so that ids are not cut in files and pipes."""


def console() -> Console:
    """For stdout."""
    found = Console(highlight=False, soft_wrap=False)
    if not found.is_terminal:
        found = Console(highlight=False, width=PIPE_COLUMNS)
    return found


def print_json(value: Any) -> None:
    """One JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """One table; nothing but the title's line when there are no rows."""
    if not rows:
        click.echo(f"{title}: none")
        return
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console().print(table)
