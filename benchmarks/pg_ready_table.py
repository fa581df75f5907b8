"""What `pg_ready` printed for several cluster sizes, as a table and as a picture (SVG)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

from benchmarks.report import Row

MACHINE = "machine_cores"
"""The line that says where the others come from; memory is among its params."""

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 50
_LIST, _SERIAL, _LATE = "#5b8dc9", "#d9a441", "#4f9d69"


@dataclass(frozen=True)
class Size:
    """The figures of one cluster size; None: not measured."""

    nodes: int
    groups: int = 0
    list_s: float | None = None
    serial_s: float | None = None
    rejected: float | None = None
    late_list_s: float | None = None
    late_serial_s: float | None = None
    late_rejected: float | None = None


_FIELDS = {
    "pg_ready_list_s": "list_s",
    "pg_ready_serial_s": "serial_s",
    "rejected_prepare_ratio": "rejected",
}


def sizes_of(rows: Iterable[Row]) -> list[Size]:
    """One entry for each number of nodes, smallest first; of equal rows the last counts."""
    sizes: dict[int, Size] = {}
    for row in rows:
        field = _FIELDS.get(row.name)
        if field is None:
            continue
        nodes = int(str(row.params["nodes"]))
        size = sizes.get(nodes) or Size(nodes, int(str(row.params["groups"])))
        late = bool(row.params.get("sync_delay_s"))
        sizes[nodes] = replace(size, **{f"late_{field}" if late else field: row.value})
    return [sizes[nodes] for nodes in sorted(sizes)]


# ---- table

_HEADS = (
    "nodes",
    "groups of 18",
    "list",
    "serial",
    "serial / list",
    "rejected prepares",
    "list, snapshots 60 s late",
    "serial, 60 s late",
    "rejected, 60 s late",
)


def table(rows: list[Row]) -> str:
    """Markdown, with a sentence that says on what machine."""
    lines = [f"| {' | '.join(_HEADS)} |", f"| {' | '.join(['---:'] * len(_HEADS))} |"]
    for size in sizes_of(rows):
        quotient = size.serial_s / size.list_s if size.serial_s and size.list_s else None
        cells = [
            f"{size.nodes:,}",
            f"{size.groups:,}",
            _seconds(size.list_s),
            _seconds(size.serial_s),
            "-" if quotient is None else f"{quotient:.2f}",
            _share(size.rejected),
            _seconds(size.late_list_s),
            _seconds(size.late_serial_s),
            _share(size.late_rejected),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([_machine(rows), "", *lines])


def _machine(rows: list[Row]) -> str:
    text = "Seconds from the first `placement_group()` until every `ready()` was answered"
    for row in rows:
        if row.name == MACHINE:
            memory = row.params["memory_gib"]
            return f"{text}; {row.value:g} cores and {memory} GiB for fleet, GCS and driver:"
    return f"{text}:"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g} s"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2g} %"


# ---- picture


class _Scale:
    """Logarithmic, from a power of ten to a power of ten."""

    def __init__(self, values: list[float], start: float, length: float) -> None:
        self.first = math.floor(math.log10(min(values)))
        self.last = max(math.ceil(math.log10(max(values))), self.first + 1)
        self._start = start
        self._length = length

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return round(self._start + self._length * share, 1)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.first, self.last + 1)]


def picture(rows: list[Row]) -> str:
    """The whole SVG document: seconds by nodes, both axes logarithmic.

    Raises:
        ValueError: there is nothing to draw.
    """
    sizes = sizes_of(rows)
    curves = [
        ("get([pg.ready() for pg in groups])", _LIST, [(s.nodes, s.list_s) for s in sizes]),
        ("for pg in groups: get(pg.ready())", _SERIAL, [(s.nodes, s.serial_s) for s in sizes]),
        ("list, snapshots 60 s late", _LATE, [(s.nodes, s.late_list_s) for s in sizes]),
    ]
    points = {
        (label, color): [(nodes, value) for nodes, value in curve if value]
        for label, color, curve in curves
    }
    values = [value for curve in points.values() for _, value in curve]
    if not values:
        raise ValueError("no row of pg_ready_list_s or pg_ready_serial_s to draw")
    across = _Scale([size.nodes for size in sizes], _LEFT, _WIDTH - _LEFT - _RIGHT)
    up = _Scale(values, _HEIGHT - _BOTTOM, _TOP + _BOTTOM - _HEIGHT)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 20, "Seconds until all groups are ready, by nodes (18 a group)", 14),
        *_grid(across, up),
    ]
    for number, ((label, color), curve) in enumerate(points.items()):
        if curve:
            parts += _curve(curve, across, up, color)
            parts.append(_text(_LEFT + 12, _TOP + 18 + 16 * number, label, color=color))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _grid(across: _Scale, up: _Scale) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts: list[str] = []
    for nodes in across.ticks():
        x = across.at(nodes)
        parts.append(f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(_text(x, bottom + 18, f"{nodes:,.0f}", anchor="middle"))
    for seconds in up.ticks():
        y = up.at(seconds)
        parts.append(f'<line x1="{_LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{seconds:g} s", anchor="end"))
    parts.append(_text((_LEFT + right) / 2, bottom + 38, "nodes", anchor="middle"))
    return parts


def _curve(curve: list[tuple[int, float]], across: _Scale, up: _Scale, color: str) -> list[str]:
    spots = [(across.at(nodes), up.at(value)) for nodes, value in curve]
    line = " ".join(f"{x},{y}" for x, y in spots)
    return [
        f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>',
        *(f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>' for x, y in spots),
    ]


def _text(
    x: float, y: float, text: str, size: int = 11, anchor: str = "start", color: str = "black"
) -> str:
    style = f'font-family="sans-serif" font-size="{size}" text-anchor="{anchor}" fill="{color}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'
