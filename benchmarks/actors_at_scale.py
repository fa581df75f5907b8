"""`./run bench actors_at_scale`: a group for every rack, then some actors in every bundle."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import shoal
from benchmarks.processes import cpu_seconds
from benchmarks.report import Row, emit, note
from benchmarks.scale_gcs import gcs_only, head_node, rss_mib
from cluster_common.transport.descriptors import raise_descriptor_limit
from shoal.cluster_utils import Fleet
from shoal.gcs_calls import GcsCalls
from shoal.util.placement_group import placement_group
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy

NODES = 2_000
RACK_NODES = 18
PER_BUNDLE = 4
FLEET_NODES_MAX = 277 * RACK_NODES
"""Agents of one process, whole racks: each needs two descriptors, and 20,000 are a usual limit."""

SLOT = "slot"
DEADLINE_S = 300.0
STATUS_TIMEOUT_S = 60.0
REPORTS = "rpc.ReportActors"
"""Batches of actor records: sent by themselves, nobody waits for the answer."""

TOOLS_OWN = ("rpc.GetClusterStatus",)


Pids = dict[str, list[int]]


@shoal.remote(num_cpus=1)
class Member:
    """One actor of a gang. On a fleet node its methods answer None."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help="agents")
    parser.add_argument("--per-bundle", type=int, default=PER_BUNDLE, help="actors in a bundle")
    parser.add_argument("--connections", type=int, default=100, help="TCP connections, 0: one each")
    arguments = parser.parse_args()
    nodes, per_bundle = arguments.nodes, arguments.per_bundle
    if nodes < 1 or per_bundle < 1:
        parser.error(f"--nodes {nodes} --per-bundle {per_bundle}: at least one each")
    raise_descriptor_limit()
    with (
        gcs_only() as gcs,
        head_node(gcs.address),
        ExitStack() as fleets,
        GcsCalls(gcs.address, timeout_s=STATUS_TIMEOUT_S) as calls,
    ):
        started = [
            fleets.enter_context(
                Fleet(
                    gcs.address,
                    min(FLEET_NODES_MAX, nodes - first),
                    first=first,
                    rack_size=RACK_NODES,
                    connections=arguments.connections,
                    resources={"CPU": per_bundle, SLOT: 1},
                    leases=True,
                )
            )
            for first in range(0, nodes, FLEET_NODES_MAX)
        ]
        shoal.init(address=gcs.address)
        pids = {"driver": [os.getpid()], "gcs": [gcs.pid], "fleet": [f.pid for f in started]}
        try:
            for row in _rows(nodes, per_bundle, pids, lambda: dict(calls.status().counters)):
                emit(row)
        finally:
            ending = time.perf_counter()
            shoal.shutdown()
            note(f"the driver went in {time.perf_counter() - ending:.1f} s")


def _rows(
    nodes: int, per_bundle: int, pids: Pids, counters: Callable[[], dict[str, int]]
) -> Iterator[Row]:
    params: dict[str, object] = {"nodes": nodes, "actors": nodes * per_bundle}
    before = counters()
    cpu = _cpu_s(pids)
    start = time.perf_counter()
    groups = _groups(nodes, per_bundle)
    shoal.get([group.ready() for group in groups], timeout=DEADLINE_S)
    ready = time.perf_counter()
    yield Row("groups_ready_s", ready - start, "s", params | {"groups": len(groups)})
    yield from _cpu_rows("groups", cpu, pids, params)
    cpu = _cpu_s(pids)
    begun = time.perf_counter()
    actors = _actors(groups, per_bundle)
    created = time.perf_counter()
    # Answered by the worker itself, once its constructor returned.
    shoal.get([actor.__ray_ready__.remote() for actor in actors], timeout=DEADLINE_S)
    alive = time.perf_counter()
    yield Row("actors_created_s", created - begun, "s", params)
    yield Row("actors_alive_s", alive - begun, "s", params)
    yield Row("groups_and_actors_s", ready - start + alive - begun, "s", params)
    yield from _cpu_rows("actors", cpu, pids, params)
    yield from _message_rows(before, counters(), len(actors), alive - begun, params)
    for name, group in pids.items():
        yield Row(f"{name}_rss_mib", sum(rss_mib(pid) for pid in group), "MiB", params)


def _groups(nodes: int, per_bundle: int) -> list[Any]:
    """One group a rack; the nodes of the last, smaller rack are a group too, placed last."""
    whole, rest = divmod(nodes, RACK_NODES)
    sizes = [RACK_NODES] * whole + ([rest] if rest else [])
    return [
        placement_group(
            [{SLOT: 1, "CPU": per_bundle}] * size,
            strategy="STRICT_SPREAD",
            topology_strategy={"rack": "STRICT_PACK"},
        )
        for size in sizes
    ]


def _actors(groups: list[Any], per_bundle: int) -> list[Any]:
    return [
        Member.options(
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=index
            )
        ).remote()
        for group in groups
        for index in range(group.bundle_count)
        for _ in range(per_bundle)
    ]


def _message_rows(
    before: dict[str, int],
    after: dict[str, int],
    actors: int,
    seconds: float,
    params: dict[str, object],
) -> Iterator[Row]:
    calls = {
        name: count - before.get(name, 0)
        for name, count in after.items()
        if name.startswith("rpc.") and name not in TOOLS_OWN
    }
    batches = calls.pop(REPORTS, 0)
    asked = {name: count for name, count in calls.items() if count}
    yield Row(
        "gcs_sync_messages_per_actor", sum(asked.values()) / actors, "1", params | {"calls": asked}
    )
    yield Row("gcs_record_batches_per_s", batches / seconds, "1/s", params | {"batches": batches})


def _cpu_s(pids: Pids) -> dict[str, float]:
    return {name: cpu_seconds(group) for name, group in pids.items()}


def _cpu_rows(
    phase: str, before: dict[str, float], pids: Pids, params: dict[str, object]
) -> Iterator[Row]:
    for name, used in _cpu_s(pids).items():
        yield Row(f"{phase}_{name}_cpu_s", used - before[name], "s", params)


if __name__ == "__main__":
    main()
