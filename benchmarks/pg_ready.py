"""`./run bench pg_ready`: one group of 18 bundles for every rack of 18 nodes, all at once."""

from __future__ import annotations

import argparse
import time
from typing import Any

import shoal
from benchmarks.report import Row, emit
from benchmarks.scale_gcs import add_streams_option, gcs_only, head_node, streams_of
from shoal.cluster_utils import Fleet
from shoal.util.placement_group import placement_group, remove_placement_group

NODES = 2_000
RACK_NODES = 18
SLOT = "slot"
READY_DEADLINE_S = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help="agents")
    parser.add_argument("--connections", type=int, default=100, help="TCP connections, 0: one each")
    add_streams_option(parser)
    parser.add_argument("--rounds", type=int, default=3, help="the median is printed")
    parser.add_argument(
        "--sync-delay", type=float, default=0.0, help="seconds that agents hold snapshots back"
    )
    arguments = parser.parse_args()
    nodes: int = arguments.nodes
    if nodes < RACK_NODES:
        parser.error(f"--nodes {nodes}: at least {RACK_NODES}, one rack")
    with (
        gcs_only() as gcs,
        head_node(gcs.address),
        Fleet(
            gcs.address,
            nodes,
            rack_size=RACK_NODES,
            connections=arguments.connections,
            own_streams=arguments.own_streams,
            resources={"CPU": 8, SLOT: 1},
            sync_delay_s=arguments.sync_delay,
        ) as fleet,
    ):
        shoal.init(address=gcs.address)
        try:
            _measure(fleet, arguments)
        finally:
            shoal.shutdown()


def _measure(fleet: Fleet, arguments: argparse.Namespace) -> None:
    groups = arguments.nodes // RACK_NODES
    params: dict[str, object] = {
        "nodes": arguments.nodes,
        "groups": groups,
        "bundles": RACK_NODES,
        "sync_delay_s": arguments.sync_delay,
        "streams": streams_of(arguments.own_streams, arguments.connections),
    }
    rounds: int = arguments.rounds
    before = fleet.status()
    for form in (_list, _serial):
        seconds = sorted(_round(form, groups, fleet) for _ in range(rounds))
        value = seconds[len(seconds) // 2]
        emit(Row(f"pg_ready{form.__name__}_s", value, "s", params | {"samples": rounds}))
    after = fleet.status()
    prepares = after.prepares - before.prepares
    rejected = after.prepares_rejected - before.prepares_rejected
    emit(Row("rejected_prepare_ratio", rejected / prepares, "1", params | {"prepares": prepares}))


def _round(form: Any, groups: int, fleet: Fleet) -> float:
    created: list[Any] = []
    start = time.perf_counter()
    form(created, groups)
    elapsed = time.perf_counter() - start
    for group in created:
        remove_placement_group(group)
    end = time.monotonic() + READY_DEADLINE_S
    while fleet.status().bundles:
        if time.monotonic() > end:
            raise RuntimeError("bundles of removed groups did not come back")
        time.sleep(0.05)  # Between two looks, outside what is measured.
    return elapsed


def _create(created: list[Any], groups: int) -> None:
    for _ in range(groups):
        created.append(  # noqa: PERF401 - what exists is removed even when a later one fails
            placement_group(
                [{SLOT: 1}] * RACK_NODES,
                strategy="STRICT_SPREAD",
                topology_strategy={"rack": "STRICT_PACK"},
            )
        )


def _list(created: list[Any], groups: int) -> None:
    _create(created, groups)
    shoal.get([group.ready() for group in created], timeout=READY_DEADLINE_S)


def _serial(created: list[Any], groups: int) -> None:
    _create(created, groups)
    for group in created:
        shoal.get(group.ready(), timeout=READY_DEADLINE_S)


if __name__ == "__main__":
    main()
