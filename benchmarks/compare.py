"""`./run bench compare --peer ray==2.60.0`: the same work on both, alternating, medians and ratio.

A ratio above 1 means Shoal is better, for rates and for times. The peer is only run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from benchmarks import peer, report
from benchmarks.part_run import PartFailedError, medians, run_part
from benchmarks.report import Row, note
from benchmarks.work.run import PARTS

PEER = "ray==2.60.0"
ROUNDS_MIN = 3
NODES = 36
IDLE_WINDOW_S = 5.0
FAILED = 1


def main() -> int:
    arguments = parse_arguments()
    peer_library = peer.library_name(arguments.peer)
    interpreters = {"shoal": sys.executable, peer_library: peer.interpreter(arguments.peer)}
    failed = False
    for part in arguments.parts:
        samples: dict[str, list[Row]] = {library: [] for library in interpreters}
        for number in range(arguments.rounds):
            for library, python in interpreters.items():
                note(f"{part}: round {number + 1} of {arguments.rounds}, {library}")
                flags = part_flags(part, arguments)
                try:
                    samples[library] += run_part(library, part, *flags, python=python)
                except PartFailedError as error:
                    note(f"failed: {error}")
                    failed = True
        emit_ratios(samples["shoal"], samples[peer_library])
    return FAILED if failed else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default=PEER, help="NAME==VERSION of the library to compare to")
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN, help="runs of each side, >= 3")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--nodes", type=int, default=NODES, help="gang: node processes")
    parser.add_argument("--count", type=int, default=50, help="actors at once")
    parser.add_argument("--seconds", type=float, default=0.6, help="micro: length of a window")
    parser.add_argument("--only", default="", help="micro: rows whose name contains this")
    arguments = parser.parse_args()
    if arguments.rounds < ROUNDS_MIN:
        parser.error(f"--rounds {arguments.rounds}: at least {ROUNDS_MIN}, one round proves little")
    try:
        peer.library_name(arguments.peer)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def part_flags(part: str, arguments: argparse.Namespace) -> list[str]:
    """The flags of one part; rounds inside a start stay few, rounds outside alternate."""
    if part == "micro":
        return ["--seconds", str(arguments.seconds), "--windows", "1", "--only", arguments.only]
    if part == "gang":
        return ["--nodes", str(arguments.nodes), "--idle-window", str(IDLE_WINDOW_S)]
    if part.startswith("actors"):
        return ["--count", str(arguments.count), "--rounds", "1"]
    if part == "restart":
        return ["--rounds", "2"]
    return []


def emit_ratios(ours: Sequence[Row], theirs: Sequence[Row]) -> None:
    """Print a row for each figure that both sides have."""
    peers = {row.name: row for row in medians(theirs)}
    for row in medians(ours):
        other = peers.get(row.name)
        if other is None:
            note(f"no row: the peer has no figure for {row.name}")
            continue
        record = {
            "name": row.name,
            "value": report.rounded(row.value),
            "peer_value": report.rounded(other.value),
            "ratio": report.rounded(report.ratio(row.value, other.value, row.unit)),
            "unit": row.unit,
            "params": row.params | {"peer_samples": other.params["samples"]},
        }
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    sys.exit(main())
