"""`python -m cluster_simulator`: one launch for a user, or many seeds for a developer.

Exit codes: 0 done, 1 an invariant does not hold, 2 wrong options.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from pathlib import Path

import msgspec

from cluster_simulator import scenarios
from cluster_simulator.failure import SimulationFailedError
from cluster_simulator.launch_report import launch
from cluster_simulator.run import RunOptions, simulate
from cluster_simulator.scenario import Scenario
from cluster_simulator.timeline import drawn
from cluster_simulator.world import Load

_LARGE_NODES = 500
"""From here on checkers look at the end only."""


def main() -> int:
    """Parses, runs, prints JSON for launches and text for seeds."""
    options = _parser().parse_args()
    names = [options.scenario] if options.scenario else list(scenarios.BY_NAME)
    chosen = [scenarios.BY_NAME[name] for name in names]
    # Everything lives until the end of the run: looking for garbage again and again finds none.
    gc.freeze()
    gc.set_threshold(200_000, 50, 1_000)
    if options.launch:
        return _launch(chosen[0], options)
    if options.seed is not None:
        seeds = [options.seed]
    else:
        seeds = list(range(options.first, options.first + options.seeds))
    return _seeds(chosen, seeds, options.nodes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("scenario", nargs="?", choices=list(scenarios.BY_NAME), metavar="SCENARIO")
    parser.add_argument("--nodes", type=int, default=0, help="default: the scenario's")
    parser.add_argument("--seed", type=int, help="one run with this seed")
    parser.add_argument("--seeds", type=int, default=100, help="so many runs over all scenarios")
    parser.add_argument("--first", type=int, default=0, help="first of --seeds")
    parser.add_argument("--launch", action="store_true", help="report a launch as JSON")
    parser.add_argument("--seconds", type=float, default=60.0, help="virtual, of a launch")
    parser.add_argument("--whole", action="store_true", help="go on when everything is up")
    parser.add_argument("--gangs", type=int, default=0)
    parser.add_argument("--bundles", type=int, default=0)
    parser.add_argument("--bundle-cpus", type=int, default=0)
    parser.add_argument("--actors-per-bundle", type=int, default=4)
    parser.add_argument("--svg", type=Path, help="write the launch's timeline here")
    return parser


def _launch(scenario: Scenario, options: argparse.Namespace) -> int:
    nodes = options.nodes or scenario.nodes
    load = Load(
        gangs=options.gangs,
        bundles=options.bundles,
        bundle_cpus=options.bundle_cpus,
        actors_per_bundle=options.actors_per_bundle,
    )
    large = nodes >= _LARGE_NODES
    run_options = RunOptions(check_every=0 if large else 200, digesting=False, load=load)
    seed = options.seed or 0
    try:
        report = launch(
            scenario,
            seed,
            nodes=nodes,
            options=run_options,
            virtual_s=options.seconds,
            whole=options.whole,
        )
    except AssertionError as error:
        sys.stderr.write(f"scenario {scenario.name}, seed {seed}, {nodes} nodes: {error}\n")
        return 1
    if options.svg is not None:
        options.svg.write_text(drawn(report), encoding="utf-8")
    told = msgspec.structs.asdict(report)
    del told["spans"], told["actor_times_ms"]
    told["waiting"] = [msgspec.structs.asdict(one) for one in report.waiting]
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


def _seeds(chosen: list[Scenario], seeds: list[int], nodes: int) -> int:
    """Seeds are shared out over the scenarios; one seed alone runs in each."""
    failed = 0
    events = 0
    runs = [(chosen[seed % len(chosen)], seed) for seed in seeds]
    if len(seeds) == 1:
        runs = [(scenario, seeds[0]) for scenario in chosen]
    for scenario, seed in runs:
        try:
            result = simulate(scenario, seed, nodes=nodes)
        except SimulationFailedError as error:
            failed += 1
            sys.stdout.write(f"{error}\n")
        else:
            events += result.events
            if len(runs) <= len(scenarios.BY_NAME):
                sys.stdout.write(f"{scenario.name}: {result}\n")
    sys.stdout.write(f"{len(runs)} runs, {events} events, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
