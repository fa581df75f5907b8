"""A picture of a launch as SVG: how many actors are up over time, and a bar for each gang."""

from __future__ import annotations

from bisect import bisect_right
from xml.sax.saxutils import escape

from cluster_simulator.launch_report import GangSpan, LaunchReport

_WIDTH = 960
_LEFT = 70
_RIGHT = 20
_CURVE_HEIGHT = 180
_BAR_HEIGHT = 9
_BARS_MAX = 60
_POINTS = 200
_TICKS = 6
_WAITS, _STARTS, _RUNS = "#d9a441", "#5b8dc9", "#4f9d69"


def drawn(report: LaunchReport) -> str:
    """The whole document."""
    ends = [report.virtual_s * 1_000, report.up_last_ms or 0.0]
    all_up = report.gangs_up == report.gangs and report.up_last_ms
    end_ms = (report.up_last_ms or 0) * 1.05 if all_up else max(ends)
    end_ms = max(end_ms, 1.0)
    spans = _chosen(report.spans)
    height = 60 + _CURVE_HEIGHT + 50 + len(spans) * _BAR_HEIGHT + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _text(_LEFT, 20, _title(report), 14),
        *_curve(report, end_ms),
        *_bars(spans, end_ms, 60 + _CURVE_HEIGHT + 50),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _title(report: LaunchReport) -> str:
    return (
        f"{report.scenario}: {report.nodes} nodes, seed {report.seed}; "
        f"{report.gangs_up} of {report.gangs} gangs,"
        f" {report.actors_up} of {report.actors} actors up"
    )


def _chosen(spans: list[GangSpan]) -> list[GangSpan]:
    """Evenly over all gangs when there are too many to draw."""
    if len(spans) <= _BARS_MAX:
        return spans
    return [spans[number * len(spans) // _BARS_MAX] for number in range(_BARS_MAX)]


def _x(at_ms: float, end_ms: float) -> float:
    return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * min(at_ms, end_ms) / end_ms, 1)


def _text(x: float, y: float, text: str, size: int = 11, anchor: str = "start") -> str:
    style = f'font-family="sans-serif" font-size="{size}" text-anchor="{anchor}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def _curve(report: LaunchReport, end_ms: float) -> list[str]:
    top, bottom = 40, 40 + _CURVE_HEIGHT
    times = sorted(report.actor_times_ms)
    most = max(1, report.actors)
    points: list[str] = []
    for step in range(_POINTS + 1):
        at_ms = end_ms * step / _POINTS
        y = bottom - _CURVE_HEIGHT * min(most, bisect_right(times, at_ms)) / most
        points.append(f"{_x(at_ms, end_ms)},{y:.1f}")
    line = f'<line x1="{_LEFT}" y1="{bottom}" x2="{_WIDTH - _RIGHT}" y2="{bottom}" stroke="#888"/>'
    parts = [line]
    for tick in range(_TICKS + 1):
        at_ms = end_ms * tick / _TICKS
        parts.append(_text(_x(at_ms, end_ms), bottom + 16, f"{at_ms:.0f} ms", anchor="middle"))
    parts += [
        _text(_LEFT - 6, top + 4, str(most), anchor="end"),
        _text(_LEFT - 6, bottom, "0", anchor="end"),
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{_RUNS}" stroke-width="2"/>',
        _text(_LEFT + 6, top + 4, "actors that answer"),
    ]
    return parts


def _bars(spans: list[GangSpan], end_ms: float, top: float) -> list[str]:
    legend = "gangs: waits for nodes / actors start / runs"
    parts = [_text(_LEFT, top - 8, legend)]
    for row, span in enumerate(spans):
        y = top + row * _BAR_HEIGHT
        placed = end_ms if span.placed_ms is None else span.placed_ms
        up = end_ms if span.up_ms is None else span.up_ms
        for begin, end, color in (
            (span.asked_ms, placed, _WAITS),
            (placed, up, _STARTS),
            (up, end_ms, _RUNS),
        ):
            x = _x(begin, end_ms)
            width = round(_x(end, end_ms) - x, 1)
            if width > 0:
                parts.append(
                    f'<rect x="{x}" y="{y}" width="{width}" height="{_BAR_HEIGHT - 2}"'
                    f' fill="{color}"/>'
                )
        parts.append(_text(_LEFT - 6, y + 7, span.group[-8:] or "0", 8, "end"))
    return parts
