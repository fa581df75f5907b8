"""`./run bench micro`: the field's microbenchmarks on one local node of two CPUs."""

from __future__ import annotations

import argparse

from benchmarks import report
from benchmarks.part_run import run_part
from benchmarks.work.micro import CASES

SECONDS = 0.6
WINDOWS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of one window")
    parser.add_argument("--windows", type=int, default=WINDOWS, help="windows per row")
    arguments = parser.parse_args()
    only: str = arguments.only
    if not any(only in case.name for case in CASES):
        names = ", ".join(case.name for case in CASES)
        parser.error(f"--only {only!r} matches no row; rows: {names}")
    flags = ["--only", only, "--seconds", str(arguments.seconds)]
    flags += ["--windows", str(arguments.windows)]
    report.emit_all(run_part("shoal", "micro", *flags))


if __name__ == "__main__":
    main()
