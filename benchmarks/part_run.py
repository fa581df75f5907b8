"""A part of the work in a process of its own: a fresh start each time, for either library."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.report import Row, emit_all, median_of, parse

PROJECT = Path(__file__).resolve().parent.parent
PART_DEADLINE_S = 900.0


class PartFailedError(RuntimeError):
    """The process of a part ended with an error; its own words are on stderr."""


def run_part(library: str, part: str, *flags: str, python: str = sys.executable) -> Iterator[Row]:
    """Run one part and yield its rows as it prints them.

    Args:
        library: the library to measure, which `python` can import.
        part: a name of `benchmarks.work.run.PARTS`.
        flags: further flags of `benchmarks.work.run`.
        python: the interpreter to run it with.

    Raises:
        PartFailedError: it ended with an error or took longer than 15 minutes.
    """
    command = [python, "-m", "benchmarks.work.run", "--library", library, "--part", part, *flags]
    process = subprocess.Popen(
        command, cwd=PROJECT, env=_environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            yield from parse(line)
        code = process.wait(timeout=PART_DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise PartFailedError(f"{library} {part}: no end after {PART_DEADLINE_S:g} s") from error
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if code != 0:
        raise PartFailedError(f"{library} {part}: exit code {code}")


def medians(rows: Iterable[Row]) -> list[Row]:
    """One row a name, in the order of first appearance: the median, and the number of samples."""
    samples: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        samples[row.name].append(row)
    return [
        Row(name, median_of(each), each[0].unit, each[0].params | {"samples": len(each)})
        for name, each in samples.items()
    ]


def emit_medians(rows: Iterable[Row]) -> None:
    """Print the medians of the rows, also of those that came before a failure."""
    seen: list[Row] = []
    try:
        for row in rows:
            seen.append(row)  # noqa: PERF402 - `extend` would lose them at an error
    finally:
        emit_all(medians(seen))


def _environment() -> dict[str, str]:
    environment = dict(os.environ)
    environment["PYTHONPATH"] = str(PROJECT)
    environment["PYTHONUNBUFFERED"] = "1"
    return environment
