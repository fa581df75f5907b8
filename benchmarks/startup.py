"""`./run bench startup`: from `init()` without a cluster until the first task has answered."""

from __future__ import annotations

import argparse

from benchmarks.part_run import emit_medians, run_part

ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="cold starts")
    rounds: int = parser.parse_args().rounds
    emit_medians(row for _ in range(rounds) for row in run_part("shoal", "startup"))


if __name__ == "__main__":
    main()
