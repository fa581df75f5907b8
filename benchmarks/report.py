"""The one output format of every benchmark: JSON lines on stdout, notes on stderr."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

SIGNIFICANT_DIGITS = 4


@dataclass(frozen=True)
class Row:
    """One measured figure with its unit (`1/s`, `s`, `%`, `MiB`) and what it was measured with."""

    name: str
    value: float
    unit: str
    params: dict[str, object] = field(default_factory=dict[str, object])


def emit(row: Row) -> None:
    """Print a figure for machines."""
    record = {
        "name": row.name,
        "value": rounded(row.value),
        "unit": row.unit,
        "params": row.params,
    }
    print(json.dumps(record), flush=True)


def emit_all(rows: Iterable[Row]) -> None:
    """Print figures as they come, so that a late failure does not lose the early ones."""
    for row in rows:
        emit(row)


def note(text: str) -> None:
    """Print a sentence for people, away from the figures."""
    print(text, file=sys.stderr, flush=True)


def parse(lines: str) -> Iterator[Row]:
    """The rows in the output of a benchmark process; anything that is no row is skipped."""
    for line in lines.splitlines():
        if not line.startswith('{"name"'):
            continue
        record = json.loads(line)
        yield Row(record["name"], record["value"], record["unit"], record.get("params", {}))


def median_of(rows: Iterable[Row]) -> float:
    """The median of the values, which one slow round cannot move far."""
    return statistics.median(row.value for row in rows)


def rounded(value: float) -> float:
    """The value with as many digits as a measurement on a shared machine deserves."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def higher_is_better(unit: str) -> bool:
    """Whether a larger figure in this unit is the better one: rates are, everything else costs."""
    return unit.endswith("/s")


def ratio(value: float, peer_value: float, unit: str) -> float:
    """How many times better `value` is than `peer_value`; above 1 = better, for times too."""
    better, worse = (value, peer_value) if higher_is_better(unit) else (peer_value, value)
    return better / worse if worse > 0 else float("inf")
