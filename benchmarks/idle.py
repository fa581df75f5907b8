"""`./run bench idle`: what a GCS costs when nothing happens on thousands of nodes."""

from __future__ import annotations

import argparse

from benchmarks.report import Row, emit, note
from benchmarks.scale_gcs import (
    add_streams_option,
    cpu_percent,
    gcs_only,
    rss_mib,
    streams_of,
)
from shoal.fleet import Fleet

NODES = 10_000
AGENTS_PER_CONNECTION = 100
WINDOW_S = 60.0
"""Two rounds of pings: every silent session is pinged each 30 s."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help="agents")
    parser.add_argument(
        "--connections",
        type=int,
        default=None,
        help=f"TCP connections; default one per {AGENTS_PER_CONNECTION} agents, 0: one per agent",
    )
    add_streams_option(parser)
    parser.add_argument("--window", type=float, default=WINDOW_S, help="seconds")
    arguments = parser.parse_args()
    nodes: int = arguments.nodes
    connections = arguments.connections
    if connections is None:
        connections = max(1, nodes // AGENTS_PER_CONNECTION)
    own_streams: bool = arguments.own_streams
    with (
        gcs_only() as gcs,
        Fleet(gcs.address, nodes, connections=connections, own_streams=own_streams) as fleet,
    ):
        params: dict[str, object] = {
            "nodes": nodes,
            "connections": connections or nodes,
            "streams": streams_of(own_streams, connections),
        }
        emit(Row("nodes_joined_s", fleet.join_s, "s", params))
        before = fleet.status()
        cpu = cpu_percent(gcs.pid, arguments.window)
        after = fleet.status()
        note(f"in the window: {after.items_out - before.items_out} pings")
        emit(Row("gcs_cpu_percent", cpu, "%", params | {"window_s": arguments.window}))
        emit(Row("gcs_rss_mib", rss_mib(gcs.pid), "MiB", params))


if __name__ == "__main__":
    main()
