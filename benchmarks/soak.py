"""`./run bench soak`: drivers come and go 500 times; does anything grow?

Each round connects a driver, makes and kills actors (named ones, a detached one, one that prints),
runs tasks, makes a placement group, stores keys and disconnects. After each the rows of all tables,
the disk and everybody's memory are read. Memory is PSS: pages that forked processes share count
once. FIELD_REPORTS O-17.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import psutil

import shoal
from benchmarks.processes import pss_mib
from benchmarks.report import note
from shoal.cluster_utils import Cluster
from shoal.gcs_calls import GcsCalls
from shoal.util import kv
from shoal.util.placement_group import placement_group, remove_placement_group

ROUNDS = 500
ACTORS = 50
TASKS = 1_000
HISTORY_ROWS = 100
"""Of finished jobs and dead actors: small, so that the caps are reached while warming up."""
WARM_UP_SHARE = 0.4
NODE_CPUS = 4
LOG_FILES = 50
"""Log files of ended workers that the agent keeps: as few as the rows, for the same reason."""
BYTES_PER_MIB = 1 << 20
MEMORY = ("gcs_mib", "agent_mib", "fork_server_mib", "driver_mib")
DISK = ("store_mib", "session_mib")
COUNTS = ("gcs_files", "agent_files", "driver_files", "driver_threads", "processes")


@shoal.remote(num_cpus=0)
class Short:
    """Lives for one round."""

    def touch(self, number: int) -> int:
        """The number."""
        return number

    def say(self) -> None:
        """A line into the log of its worker."""
        print("here I am")


@shoal.remote(num_cpus=0.5)
def work(number: int) -> int:
    """The number."""
    return number


def one_round(cluster: Cluster, actors: int, tasks: int) -> None:
    """A driver's life."""
    cluster.connect(namespace="soak")
    try:
        made = [Short.options(name=f"short-{number}").remote() for number in range(actors - 1)]
        made.append(Short.options(name="stays", lifetime="detached").remote())
        assert shoal.get([a.touch.remote(n) for n, a in enumerate(made)]) == list(range(actors))
        shoal.get(made[0].say.remote())
        assert shoal.get([work.remote(number) for number in range(tasks)]) == list(range(tasks))
        group = placement_group([{"CPU": 1}] * 2)
        shoal.get(group.ready())
        remove_placement_group(group)
        kv.put("round", b"x" * 1_000, namespace="soak")
        kv.put("while", b"x", namespace="soak", ttl_s=86_400)
        for actor in made:
            shoal.kill(actor)
    finally:
        shoal.shutdown()


def look(cluster: Cluster) -> dict[str, Any]:
    """Rows of every table, bytes on disk, memory of all that stays."""
    with GcsCalls(cluster.gcs_address) as gcs:
        status = gcs.status(verbose=True)
    assert cluster.head_node is not None
    agent = psutil.Process(cluster.head_node.pid)
    # The first child is the fork server; its children are workers, which come and go.
    fork_server = agent.children()[0]
    driver = psutil.Process()
    gc.collect()  # channels in cycles hold sockets until the next one: no growth
    return {
        # One string for all rounds: what is noted must not be the growth that is looked for.
        "rows": {sys.intern(t.name): t.rows for t in status.tables if t.rows_max},
        "store_mib": sum(t.bytes for t in status.tables if t.name == "storage") / BYTES_PER_MIB,
        "session_mib": _folder_bytes(cluster.session.path) / BYTES_PER_MIB,
        "gcs_mib": pss_mib([cluster.gcs_pid]),
        "agent_mib": pss_mib([agent.pid]),
        "fork_server_mib": pss_mib([fork_server.pid]),
        "driver_mib": pss_mib([driver.pid]),
        "gcs_files": psutil.Process(cluster.gcs_pid).num_fds(),
        "agent_files": agent.num_fds(),
        "driver_files": driver.num_fds(),
        "driver_threads": driver.num_threads(),
        "processes": len(agent.children(recursive=True)),
    }


def _caps(cluster: Cluster) -> dict[str, int]:
    """How many rows each table may have."""
    with GcsCalls(cluster.gcs_address) as gcs:
        status = gcs.status(verbose=True)
    return {table.name: table.rows_max for table in status.tables if table.rows_max}


def run(rounds: int, actors: int, tasks: int, history_rows: int = HISTORY_ROWS) -> dict[str, Any]:
    """All rounds; what was seen after the warm-up beside the end, and how it grew between."""
    started = time.monotonic()
    looks: list[dict[str, Any]] = []
    rows_max: dict[str, int] = {}
    head = {"num_cpus": NODE_CPUS, "settings": {"ended_log_files": str(LOG_FILES)}}
    with Cluster(
        initialize_head=True, head_node_args=head, history_rows=history_rows, inject_faults=False
    ) as cluster:
        for number in range(rounds):
            one_round(cluster, actors, tasks)
            looks.append(look(cluster))
            rows_max = rows_max or _caps(cluster)
            if (number + 1) % max(1, rounds // 20) == 0:
                note(f"round {number + 1}: {_short(looks[-1])}")
    warm = looks[int(rounds * WARM_UP_SHARE) :]
    return {
        "rounds": rounds,
        "actors": actors,
        "tasks": tasks,
        "rows_after_warm_up": _most(warm[: len(warm) // 2]),
        "rows_at_the_end": _most(warm[len(warm) // 2 :]),
        "rows_max": rows_max,
        **{name: _course([one[name] for one in warm]) for name in (*MEMORY, *DISK, *COUNTS)},
        "seconds": round(time.monotonic() - started, 1),
    }


def _most(looks: list[dict[str, Any]]) -> dict[str, int]:
    """The largest number of rows of each table."""
    return {name: max(one["rows"][name] for one in looks) for name in looks[0]["rows"]}


def _course(values: list[float]) -> dict[str, float]:
    """The most in both halves, and the slope of the line through all of them, a round."""
    half = len(values) // 2
    mean_x, mean_y = (len(values) - 1) / 2, sum(values) / len(values)
    spread = sum((x - mean_x) ** 2 for x in range(len(values)))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in enumerate(values)) / (spread or 1)
    return {
        "after_warm_up": round(max(values[:half]), 2),
        "at_the_end": round(max(values[half:]), 2),
        "slope_a_round": round(slope, 5),
    }


def _short(one: dict[str, Any]) -> dict[str, float]:
    return {name: round(one[name], 2) for name in (*MEMORY, *DISK, *COUNTS)}


def _folder_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue  # It ended meanwhile.
    return total


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
