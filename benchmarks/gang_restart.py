"""`./run bench gang_restart`: a gang loses one of its nodes; how long until all actors answer."""

from __future__ import annotations

import argparse
import queue
import time
from typing import Any

import shoal
from benchmarks.report import Row, emit, median_of
from benchmarks.scale_gcs import gcs_only, head_node
from shoal.cluster_utils import Fleet
from shoal.util.placement_group import (
    GroupChange,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy

RACK_NODES = 18
ACTORS_PER_BUNDLE = 4
ROUNDS = 5
ANSWER_DEADLINE_S = 60.0


@shoal.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)
class Member:
    """Workers of a fleet are faked: every call is answered with None."""

    def step(self) -> None:
        """One call."""


class Gang:
    """One bundle on each node of a rack, its actors, and the changes its owner is told of."""

    def __init__(self) -> None:
        self.group = placement_group(
            [{"CPU": ACTORS_PER_BUNDLE}] * RACK_NODES,
            strategy="STRICT_SPREAD",
            topology_strategy={"rack": "STRICT_PACK"},
            on_loss="restart",
        )
        shoal.get(self.group.ready(), timeout=ANSWER_DEADLINE_S)
        self.actors: list[Any] = [
            Member.options(
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    self.group, placement_group_bundle_index=index
                )
            ).remote()
            for index in range(RACK_NODES)
            for _ in range(ACTORS_PER_BUNDLE)
        ]
        self.call_all()
        self._changes: queue.Queue[tuple[float, GroupChange]] = queue.Queue()
        self._stop = self.group.on_change(
            lambda change: self._changes.put((time.perf_counter(), change))
        )

    def call_all(self) -> None:
        """One call to each actor; returns when all have answered."""
        calls = [actor.step.remote() for actor in self.actors]
        shoal.get(calls, timeout=ANSWER_DEADLINE_S)

    def nodes(self) -> list[str]:
        """Hex ids of the nodes of its bundles."""
        return list(placement_group_table(self.group)["bundles_to_node_id"].values())

    def told(self, state: str) -> float:
        """The moment at which its owner was told that it is in this state."""
        while True:
            moment, change = self._changes.get(timeout=ANSWER_DEADLINE_S)
            if change.state == state:
                return moment

    def close(self) -> None:
        """Its actors end, its bundles go back."""
        self._stop()
        remove_placement_group(self.group)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="killed nodes, each in a rack of its own"
    )
    rounds: int = parser.parse_args().rounds
    if rounds < 1:
        parser.error(f"--rounds {rounds}: at least 1")
    nodes = RACK_NODES * (rounds + 1)
    with (
        gcs_only() as gcs,
        head_node(gcs.address),
        Fleet(gcs.address, nodes, rack_size=RACK_NODES, leases=True) as fleet,
    ):
        shoal.init(address=gcs.address)
        try:
            _measure(fleet, rounds)
        finally:
            shoal.shutdown()


def _measure(fleet: Fleet, rounds: int) -> None:
    gang = Gang()
    samples: dict[str, list[Row]] = {}
    params: dict[str, object] = {
        "nodes": RACK_NODES,
        "actors": len(gang.actors),
        "samples": rounds,
    }
    for number in range(rounds):
        for name, seconds in _round(gang, fleet, number).items():
            samples.setdefault(name, []).append(Row(name, seconds, "s", params))
    gang.close()
    for name, rows in samples.items():
        emit(Row(name, median_of(rows), "s", params))


def _round(gang: Gang, fleet: Fleet, number: int) -> dict[str, float]:
    """Seconds of one restart, in all and by phase; the phases add up."""
    before = gang.nodes()
    victim = before[number % RACK_NODES]
    start = time.perf_counter()
    fleet.kill_node(victim)
    lost = gang.told("RESCHEDULING")
    placed = gang.told("CREATED")
    gang.call_all()
    answering = time.perf_counter()
    after = gang.nodes()
    workers = fleet.status().workers
    if set(before) & set(after) or workers != len(gang.actors):
        raise RuntimeError(
            f"the gang was not restarted as a whole: {len(set(before) & set(after))} nodes stayed, "
            f"{workers} workers instead of {len(gang.actors)}"
        )
    return {
        "gang_restart_s": answering - start,
        "gang_restart_noticed_s": lost - start,
        "gang_restart_placed_s": placed - lost,
        "gang_restart_actors_s": answering - placed,
    }


if __name__ == "__main__":
    main()
