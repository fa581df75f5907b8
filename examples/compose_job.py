"""A job that touches every node of a cluster and knows what must come out.

Tasks, one actor for each node and a SPREAD placement group, in rounds; the actors may be restarted
and the tasks retried, so that the result is right also when a node goes away meanwhile. Prints one
line of JSON; exit code 0 only if every number was right. The cluster is that of SHOAL_ADDRESS.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time

import shoal
from shoal.util.placement_group import placement_group, remove_placement_group
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy

TASKS_PER_ROUND = 24
TASK_S = 0.02
GROUP_TIMEOUT_S = 120


@shoal.remote(max_retries=-1)
def square(number: int) -> int:
    """Some work."""
    time.sleep(TASK_S)
    return number * number


@shoal.remote(max_restarts=-1, max_task_retries=-1, num_cpus=0.5)
class Adder:
    """Adds numbers; keeps nothing, so a restarted one gives the same answers."""

    def total(self, numbers: list[int]) -> int:
        """Their sum."""
        return sum(numbers)

    def host(self) -> str:
        """Where it lives."""
        return socket.gethostname()


@shoal.remote
def host() -> str:
    """Where it runs."""
    return socket.gethostname()


def worker_nodes() -> int:
    """Nodes alive that have CPUs to give."""
    return sum(1 for n in shoal.nodes() if n["Alive"] and n["Resources"].get("CPU", 0) >= 1)


def hosts_of_a_spread_group(bundles: int) -> int:
    """Places a group over the nodes, runs a task in each bundle; on how many hosts did they run."""
    group = placement_group([{"CPU": 1}] * bundles, strategy="SPREAD")
    shoal.get(group.ready(), timeout=GROUP_TIMEOUT_S)
    places = [
        host.options(
            num_cpus=1,
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                placement_group=group, placement_group_bundle_index=index
            ),
        ).remote()
        for index in range(bundles)
    ]
    found = len(set(shoal.get(places, timeout=GROUP_TIMEOUT_S)))
    remove_placement_group(group)
    return found


def run(rounds: int) -> dict[str, object]:
    """All rounds; the numbers that came out and whether they are right."""
    nodes = worker_nodes()
    hosts = hosts_of_a_spread_group(nodes)
    adders = [Adder.options(scheduling_strategy="SPREAD").remote() for _ in range(nodes)]
    adder_hosts = len(set(shoal.get([adder.host.remote() for adder in adders])))
    wrong = 0
    for number in range(rounds):
        print(f"round {number}", file=sys.stderr, flush=True)
        first = number * TASKS_PER_ROUND
        inputs = range(first, first + TASKS_PER_ROUND)
        squares = shoal.get([square.remote(i) for i in inputs])
        wrong += squares != [i * i for i in inputs]
        totals = shoal.get([adder.total.remote(squares) for adder in adders])
        wrong += totals != [sum(squares)] * nodes
    return {
        "nodes": nodes,
        "group_hosts": hosts,
        "actor_hosts": adder_hosts,
        "rounds": rounds,
        "wrong": wrong,
        "ok": wrong == 0 and hosts == nodes and nodes > 0,
    }


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    rounds = int(os.environ.get("JOB_ROUNDS", "3"))
    parser.add_argument("--rounds", type=int, default=rounds)
    given = parser.parse_args()
    shoal.init(address=os.environ.get("SHOAL_ADDRESS"))
    try:
        result = run(given.rounds)
    finally:
        shoal.shutdown()
    print(json.dumps(result), flush=True)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
