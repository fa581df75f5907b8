"""Gangs over many node processes: boot, idle cost, groups, one actor a bundle, small groups."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import processes
from benchmarks.report import Row, note
from benchmarks.work import library as libraries
from benchmarks.work.actors import pinger_class

GROUP_BUNDLES = 18
SLOT = "slot"
SMALL_GROUPS = 200
SMALL_BUNDLE_CPUS = 0.001
READY_DEADLINE_S = 120
BOOT_DEADLINE_S = 180
NODE_CPUS = 1


@dataclass(frozen=True)
class Plan:
    """What a gang run does: node processes, rounds of groups, seconds of the idle window."""

    nodes: int
    rounds: int
    idle_window_s: float
    actors: bool


def rows(library: Any, plan: Plan) -> Iterator[Row]:
    """Boot `plan.nodes` nodes, measure everything on them, and take them down."""
    libraries.make_nodes_lean(library)
    cluster = libraries.submodule(library, "cluster_utils").Cluster(
        **libraries.cluster_options(library)
    )
    try:
        yield Row("boot_s", _boot(library, cluster, plan.nodes), "s", {"nodes": plan.nodes})
        yield from _idle_rows(plan)
        libraries.connect(library, cluster.address)
        yield from _connected_rows(library, plan)
    finally:
        library.shutdown()
        cluster.shutdown()


def _boot(library: Any, cluster: Any, nodes: int) -> float:
    start = time.perf_counter()
    for index in range(nodes):
        options = libraries.node_options(library)
        cluster.add_node(
            wait=index == 0, num_cpus=NODE_CPUS, num_gpus=0, resources={SLOT: 1}, **options
        )
    cluster.wait_for_nodes(timeout=BOOT_DEADLINE_S)
    return time.perf_counter() - start


def _idle_rows(plan: Plan) -> Iterator[Row]:
    processes.settle()
    params: dict[str, object] = {"nodes": plan.nodes}
    cpu = processes.idle_cpu_percent(plan.idle_window_s)
    pids = processes.started_pids()
    yield Row("idle_cpu_percent", cpu, "%", params | {"window_s": plan.idle_window_s})
    yield Row("pss_mib", processes.pss_mib(pids), "MiB", params | {"processes": len(pids)})


def _connected_rows(library: Any, plan: Plan) -> Iterator[Row]:
    group_count = plan.nodes // GROUP_BUNDLES
    params: dict[str, object] = {"nodes": plan.nodes, "groups": group_count}
    _create_ready_remove(library, group_count)  # A first one warms both sides up.
    for _ in range(plan.rounds):
        yield Row("groups_ready_s", _create_ready_remove(library, group_count), "s", params)
    for _ in range(plan.rounds):
        rate = SMALL_GROUPS / _small_groups(library)
        yield Row("small_groups_per_s", rate, "1/s", params | {"groups": SMALL_GROUPS})
    if plan.actors:
        yield Row("actors_first_answer_s", _actors_in_groups(library, group_count), "s", params)


def _create_ready_remove(library: Any, count: int) -> float:
    start = time.perf_counter()
    groups = _create(library, count)
    elapsed = time.perf_counter() - start
    for group in groups:
        groups_of(library).remove_placement_group(group)
    _wait_slots_free(library)
    return elapsed


def _create(library: Any, count: int) -> list[Any]:
    groups = [
        groups_of(library).placement_group([{SLOT: 1}] * GROUP_BUNDLES, strategy="STRICT_SPREAD")
        for _ in range(count)
    ]
    _wait_ready(groups)
    return groups


def _wait_ready(groups: list[Any]) -> None:
    for group in groups:
        if not group.wait(READY_DEADLINE_S):
            raise RuntimeError(f"group {group.id.hex()} not ready within {READY_DEADLINE_S} s")


def _wait_slots_free(library: Any) -> None:
    """Until every slot is free again, so that rounds do not meet each other's removals."""
    deadline = time.monotonic() + READY_DEADLINE_S
    total = library.cluster_resources()[SLOT]
    while library.available_resources().get(SLOT, 0) < total:
        if time.monotonic() > deadline:
            raise RuntimeError("slots of removed groups did not come back")
        time.sleep(0.01)


def groups_of(library: Any) -> Any:
    """The module with the placement group functions."""
    return libraries.submodule(library, "util")


def _small_groups(library: Any) -> float:
    start = time.perf_counter()
    groups = [
        groups_of(library).placement_group([{"CPU": SMALL_BUNDLE_CPUS}])
        for _ in range(SMALL_GROUPS)
    ]
    _wait_ready(groups)
    for group in groups:
        groups_of(library).remove_placement_group(group)
    return time.perf_counter() - start


def _actors_in_groups(library: Any, count: int) -> float:
    """One actor in each bundle: seconds from the first creation until each answered."""
    strategies = libraries.submodule(library, "util.scheduling_strategies")
    groups = _create(library, count)
    pinger = pinger_class(library)
    start = time.perf_counter()
    actors = [
        pinger.options(
            scheduling_strategy=strategies.PlacementGroupSchedulingStrategy(
                placement_group=group, placement_group_bundle_index=index
            )
        ).remote()
        for group in groups
        for index in range(GROUP_BUNDLES)
    ]
    pids = library.get([actor.pid.remote() for actor in actors])
    elapsed = time.perf_counter() - start
    note(f"{len(set(pids))} actors in {count} groups answered after {elapsed:.3f} s")
    for group in groups:
        groups_of(library).remove_placement_group(group)
    return elapsed
