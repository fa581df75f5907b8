"""`./run bench actors`: from the first creation until every actor answered one call."""

from __future__ import annotations

import argparse

from benchmarks.part_run import emit_medians, run_part

COUNT = 50
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="actors at once")
    parser.add_argument("--warm", action="store_true", help="workers forked ahead")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="samples of each figure")
    arguments = parser.parse_args()
    rounds: int = arguments.rounds
    flags = ["--count", str(arguments.count), "--rounds", str(rounds)]
    if arguments.warm:
        emit_medians(run_part("shoal", "actors_warm", *flags))
    else:
        # A cold pool exists once a start, so each sample starts a cluster.
        emit_medians(row for _ in range(rounds) for row in run_part("shoal", "actors", *flags))


if __name__ == "__main__":
    main()
