"""`./run bench gang`: groups of 18 bundles and their actors over many real node processes."""

from __future__ import annotations

import argparse

from benchmarks.part_run import emit_medians, run_part
from benchmarks.work.gang import GROUP_BUNDLES

NODES = 36
ROUNDS = 5
IDLE_WINDOW_S = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help="node processes, 36 or 144")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of groups")
    parser.add_argument("--idle-window", type=float, default=IDLE_WINDOW_S, help="seconds")
    arguments = parser.parse_args()
    if arguments.nodes < GROUP_BUNDLES:
        parser.error(f"--nodes {arguments.nodes}: at least {GROUP_BUNDLES}, one group's bundles")
    flags = ["--nodes", str(arguments.nodes), "--rounds", str(arguments.rounds)]
    flags += ["--idle-window", str(arguments.idle_window)]
    emit_medians(run_part("shoal", "gang", *flags))


if __name__ == "__main__":
    main()
