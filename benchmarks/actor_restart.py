"""`./run bench actor_restart`: from a worker ending itself to the first call that succeeds."""

from __future__ import annotations

import argparse

from benchmarks.part_run import emit_medians, run_part

ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="deaths")
    rounds: int = parser.parse_args().rounds
    emit_medians(run_part("shoal", "restart", "--rounds", str(rounds)))


if __name__ == "__main__":
    main()
