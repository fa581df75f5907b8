"""`./run bench pg_ready_sizes`: `pg_ready` for several cluster sizes, its table and its plot.

The lines are kept in docs/measured/pg_ready.jsonl, the plot beside them; the table goes to
docs/benchmarks.md and README.md between its markers. `--draw` makes both anew from the kept lines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import psutil

from benchmarks.part_run import PROJECT
from benchmarks.pg_ready_table import MACHINE, picture, table
from benchmarks.report import Row, emit, note, parse

SIZES = (200, 1_000, 2_000, 10_000)
LATE_S = 60.0
ROUNDS = 3
SIZE_DEADLINE_S = 600.0
_LINES = Path("docs", "measured", "pg_ready.jsonl")
_PLOT = Path("docs", "measured", "pg_ready.svg")
_DOCUMENTS = (Path("docs", "benchmarks.md"), Path("README.md"))
_BEGIN, _END = "<!-- pg_ready: begin -->\n", "<!-- pg_ready: end -->"
_BYTES_PER_GIB = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="agents")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="the median counts")
    parser.add_argument(
        "--draw", action="store_true", help="measure nothing, use the lines that are kept"
    )
    arguments = parser.parse_args()
    lines = PROJECT / _LINES
    if not arguments.draw:
        rows = [_machine()]
        for nodes in arguments.sizes:
            for delay_s in (0.0, LATE_S):
                rows += _measured(nodes, arguments.rounds, delay_s)
        lines.parent.mkdir(exist_ok=True)
        lines.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows), encoding="utf-8")
    write_documents(PROJECT, list(parse(lines.read_text(encoding="utf-8"))))


def write_documents(root: Path, rows: list[Row]) -> None:
    """The plot, and the table where the documents have its markers."""
    (root / _PLOT).write_text(picture(rows), encoding="utf-8")
    for path in _DOCUMENTS:
        text = (root / path).read_text(encoding="utf-8")
        (root / path).write_text(with_table(text, table(rows)), encoding="utf-8")


def with_table(text: str, new: str) -> str:
    """A document with another table between its markers.

    Raises:
        ValueError: it has no such markers.
    """
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"no {_BEGIN.strip()} … {_END} in the document")
    return f"{before}{begin}{new}\n{end}{after}"


def _machine() -> Row:
    memory = round(psutil.virtual_memory().total / _BYTES_PER_GIB)
    return Row(MACHINE, float(os.cpu_count() or 1), "1", {"memory_gib": memory})


def _measured(nodes: int, rounds: int, delay_s: float) -> Iterator[Row]:
    note(f"pg_ready: {nodes} nodes, snapshots {delay_s:g} s late")
    command = [sys.executable, "-m", "benchmarks.pg_ready", "--nodes", str(nodes)]
    command += ["--rounds", str(rounds), "--sync-delay", str(delay_s)]
    done = subprocess.run(
        command,
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=SIZE_DEADLINE_S,
    )
    for row in parse(done.stdout):
        emit(row)
        yield row


if __name__ == "__main__":
    main()
