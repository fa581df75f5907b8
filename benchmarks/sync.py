"""`./run bench sync`: every node changes 10 times within a second; when is every view true?"""

from __future__ import annotations

import argparse

import psutil

from benchmarks.report import Row, emit
from benchmarks.scale_gcs import add_streams_option, gcs_only, streams_of
from shoal.fleet import Fleet

NODES = 1_000
TIMES = 10
WINDOW_S = 1.0
ROUNDS = 3
SCOPES = ("schedulers", "all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help="agents")
    parser.add_argument("--connections", type=int, default=100, help="TCP connections, 0: one each")
    add_streams_option(parser)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="the median is printed")
    parser.add_argument("--sync-scope", choices=SCOPES, default=SCOPES[0], help="who gets views")
    arguments = parser.parse_args()
    nodes, scope, own_streams = arguments.nodes, arguments.sync_scope, arguments.own_streams
    params: dict[str, object] = {
        "nodes": nodes,
        "changes": nodes * TIMES,
        "sync_scope": scope,
        "streams": streams_of(own_streams, arguments.connections),
    }
    with (
        gcs_only(sync_scope=scope) as gcs,
        Fleet(
            gcs.address,
            nodes,
            connections=arguments.connections,
            own_streams=own_streams,
            schedulers=1,
        ) as fleet,
    ):
        rounds = [_round(fleet, gcs.pid) for _ in range(arguments.rounds)]
    median = sorted(rounds, key=lambda each: each["sync_converged_s"])[len(rounds) // 2]
    for name, value in median.items():
        emit(Row(name, value, _unit(name), params))


def _round(fleet: Fleet, gcs_pid: int) -> dict[str, float]:
    process = psutil.Process(gcs_pid)
    before, cpu_before = fleet.status(), sum(process.cpu_times()[:2])
    churn = fleet.churn(TIMES, WINDOW_S)
    after, cpu_after = fleet.status(), sum(process.cpu_times()[:2])
    return {
        "sync_converged_s": churn.converged_s,
        "sync_lag_s": churn.converged_s - churn.changing_s,
        "changing_s": churn.changing_s,
        "messages_in": after.messages_in - before.messages_in,
        "messages_out": after.messages_out - before.messages_out,
        "bytes_in": after.bytes_in - before.bytes_in,
        "bytes_out": after.bytes_out - before.bytes_out,
        "gcs_cpu_s": cpu_after - cpu_before,
    }


def _unit(name: str) -> str:
    if name.endswith("_s"):
        return "s"
    return "B" if name.startswith("bytes") else "messages"


if __name__ == "__main__":
    main()
