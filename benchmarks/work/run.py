"""Run parts of the work with one library in this process: `python -m benchmarks.work.run …`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from benchmarks import processes, report
from benchmarks.report import Row
from benchmarks.work import actors, gang, micro, startup
from benchmarks.work import library as libraries

PARTS = ("startup", "micro", "actors", "actors_warm", "restart", "gang")


def main() -> None:
    """Parse the flags, run one part, print its rows."""
    arguments = parse_arguments()
    processes.mark()
    report.emit_all(rows_of(arguments))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=libraries.LIBRARIES, required=True)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--only", default="", help="micro: rows whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.6, help="micro: length of one window")
    parser.add_argument("--windows", type=int, default=3, help="micro: windows per row")
    parser.add_argument("--count", type=int, default=50, help="actors at once")
    parser.add_argument("--rounds", type=int, default=3, help="rounds inside one cluster")
    parser.add_argument("--nodes", type=int, default=36, help="gang: node processes")
    parser.add_argument("--idle-window", type=float, default=10.0, help="gang: seconds of idling")
    return parser.parse_args()


def rows_of(arguments: argparse.Namespace) -> Iterator[Row]:
    if arguments.part == "startup":
        yield from startup.rows(arguments.library)
        return
    library = libraries.load(arguments.library)
    if arguments.part == "gang":
        plan = gang.Plan(arguments.nodes, arguments.rounds, arguments.idle_window, actors=True)
        yield from gang.rows(library, plan)
        return
    ahead = arguments.count if arguments.part == "actors_warm" else None
    libraries.start_local(
        library, num_cpus=micro.NODE_CPUS, resources=micro.NODE_RESOURCES, workers_ahead=ahead
    )
    try:
        yield from _local_rows(library, arguments)
    finally:
        library.shutdown()


def _local_rows(library: Any, arguments: argparse.Namespace) -> Iterator[Row]:
    rounds: int = arguments.rounds
    if arguments.part == "micro":
        yield from micro.measure(
            library,
            only=arguments.only,
            seconds=arguments.seconds,
            windows=arguments.windows,
        )
    elif arguments.part == "restart":
        yield from actors.restart_rows(library, rounds=rounds)
    else:
        warm = arguments.part == "actors_warm"
        yield from actors.start_rows(library, count=arguments.count, warm=warm, rounds=rounds)


if __name__ == "__main__":
    main()
