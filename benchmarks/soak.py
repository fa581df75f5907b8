"""`python -m benchmarks.soak --rounds 500`: drivers come and go; does anything grow?

Each round connects a driver, creates and kills actors, runs tasks, stores a key and disconnects.
After each the service's tables, its disk and everybody's memory are read.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import psutil

import shoal
from shoal.cluster_utils import Cluster
from shoal.gcs_calls import GcsCalls
from shoal.util import kv

ROUNDS = 500
ACTORS = 50
TASKS = 1_000
HISTORY_ROWS = 100
"""Of finished jobs and dead actors: small, so that the caps are reached while warming up."""
WARM_UP_SHARE = 0.4
NODE_CPUS = 4
BYTES_PER_MIB = 1 << 20


@shoal.remote(num_cpus=0)
class Short:
    """Lives for one round."""

    def touch(self, number: int) -> int:
        """The number."""
        return number


@shoal.remote(num_cpus=0.5)
def work(number: int) -> int:
    """The number."""
    return number


def one_round(cluster: Cluster, actors: int, tasks: int) -> None:
    """A driver's life."""
    cluster.connect()
    try:
        made = [Short.options(name=f"short-{number}").remote() for number in range(actors)]
        assert shoal.get([a.touch.remote(n) for n, a in enumerate(made)]) == list(range(actors))
        assert shoal.get([work.remote(number) for number in range(tasks)]) == list(range(tasks))
        kv.put("round", b"x" * 1_000, namespace="soak")
        for actor in made:
            shoal.kill(actor)
    finally:
        shoal.shutdown()


def look(cluster: Cluster) -> dict[str, Any]:
    """Rows of every table, bytes on disk, memory of service and agent."""
    with GcsCalls(cluster.gcs_address) as gcs:
        status = gcs.status(verbose=True)
    assert cluster.head_node is not None
    return {
        "rows": {table.name: table.rows for table in status.tables if table.rows_max},
        "rows_max": {table.name: table.rows_max for table in status.tables if table.rows_max},
        "disk_mib": sum(t.bytes for t in status.tables if t.name == "storage") / BYTES_PER_MIB,
        "gcs_rss_mib": _rss_mib(cluster.gcs_pid),
        "agent_rss_mib": _rss_mib(cluster.head_node.pid),
        "driver_rss_mib": _rss_mib(),
        "open_files": psutil.Process(cluster.gcs_pid).num_fds(),
    }


def run(rounds: int, actors: int, tasks: int, history_rows: int = HISTORY_ROWS) -> dict[str, Any]:
    """All rounds; the first look after warm-up beside the last, and what grew."""
    started = time.monotonic()
    looks: list[dict[str, Any]] = []
    head = {"num_cpus": NODE_CPUS}
    with Cluster(initialize_head=True, head_node_args=head, history_rows=history_rows) as cluster:
        for _ in range(rounds):
            one_round(cluster, actors, tasks)
            looks.append(look(cluster))
    warm = looks[int(rounds * WARM_UP_SHARE) :]
    half = len(warm) // 2
    figures = ("disk_mib", "gcs_rss_mib", "agent_rss_mib", "driver_rss_mib", "open_files")
    return {
        "rounds": rounds,
        "actors": actors,
        "tasks": tasks,
        "rows_after_warm_up": warm[0]["rows"],
        "rows_at_the_end": warm[-1]["rows"],
        "rows_max": warm[-1]["rows_max"],
        **{
            name: {
                "after_warm_up": round(max(one[name] for one in warm[:half]), 2),
                "at_the_end": round(max(one[name] for one in warm[half:]), 2),
            }
            for name in figures
        },
        "seconds": round(time.monotonic() - started, 1),
    }


def _rss_mib(pid: int | None = None) -> float:
    return psutil.Process(pid).memory_info().rss / BYTES_PER_MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--actors", type=int, default=ACTORS, help="of each round")
    parser.add_argument("--tasks", type=int, default=TASKS, help="of each round")
    parser.add_argument("--history-rows", type=int, default=HISTORY_ROWS)
    arguments = parser.parse_args()
    result = run(arguments.rounds, arguments.actors, arguments.tasks, arguments.history_rows)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
