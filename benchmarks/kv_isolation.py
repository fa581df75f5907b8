"""`./run bench kv_isolation`: how far KV and demand answers suffer from what other executors do.

A real control service, a fleet of agents that hold its sessions, and one client that asks one
question after another: first alone, then while the core executor places groups without a pause,
then while the broadcast executor tells every session of owners that ended.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.part_run import PROJECT
from benchmarks.report import Row, emit_all, note
from benchmarks.scale_gcs import add_streams_option, gcs_only, streams_of
from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import autoscaler_pb2_grpc, gcs_pb2_grpc
from cluster_api.v1 import gcs_pb2 as g
from cluster_common.transport.descriptors import raise_descriptor_limit
from cluster_common.transport.endpoints import make_channel

NODES = 2_000
NODE_CPUS = 4
SECONDS = 6.0
WARM_UP_S = 1.0
READY_DEADLINE_S = 120.0
VALUE_BYTES = 100
LOADS = {"core": "churn", "broadcast": "owners"}
"""The executor that is kept busy, and the load of `benchmarks.work.gcs_load` that does it."""
EXECUTORS = ("core", "node_broadcast", "kv", "autoscaler", "storage", "io_loop")
LOOK_S = 0.25
PRIORITY = -15
STALL_COUNTER = "loop.stall_recent_us"

Question = Callable[[int], Awaitable[Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help="sessions that are told")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each question and load")
    add_streams_option(parser)
    arguments = parser.parse_args()
    raise_descriptor_limit()
    own_streams: bool = arguments.own_streams
    with gcs_only() as gcs, fleet(gcs.address, arguments.nodes, own_streams=own_streams):
        note(f"{arguments.nodes} sessions are open")
        if not all([_prefer(gcs.pid), _prefer(os.getpid())]):
            note("no permission to raise priorities: other programs on this machine add to stalls")
        params: dict[str, object] = {
            "nodes": arguments.nodes,
            "streams": streams_of(own_streams),
        }
        emit_all(uvloop.run(measured(gcs.address, arguments.seconds, params)))


async def measured(address: str, seconds: float, params: dict[str, object]) -> list[Row]:
    """All figures."""
    rows: list[Row] = []
    idle = await _asked(address, seconds)
    for name, samples in idle.items():
        rows.append(Row(f"{name}_p50_ms_idle", quantile(samples, 0.5), "ms", params))
        rows.append(Row(f"{name}_p99_ms_idle", quantile(samples, 0.99), "ms", params))
    for executor, load in LOADS.items():
        stated = params | {"load": executor}
        with running("benchmarks.work.gcs_load", load, "--address", address):
            await asyncio.sleep(WARM_UP_S)  # groups of the first burst are placed
            watch = asyncio.ensure_future(_watched(address))
            loaded = await _asked(address, seconds)
            watch.cancel()
            stall_ms, lags, busy = await watch
        for name, samples in loaded.items():
            p50 = quantile(samples, 0.5)
            rows += [
                Row(f"{name}_p50_ms_loaded", p50, "ms", stated),
                Row(f"{name}_p99_ms_loaded", quantile(samples, 0.99), "ms", stated),
                Row(f"{name}_p50_times_idle", p50 / quantile(idle[name], 0.5), "x", stated),
            ]
        rows.append(Row("longest_stall_ms", stall_ms, "ms", stated))
        rows += [Row(f"{name}_busy_percent", busy[name], "%", stated) for name in EXECUTORS]
        rows += [Row(f"{name}_lag_p50_ms", lags[name], "ms", stated) for name in EXECUTORS]
    return rows


async def _asked(address: str, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each answer, questions one after another, by the name of the question."""
    channel = make_channel(address, own_connection=True)
    kv = gcs_pb2_grpc.KvServiceStub(channel)
    demand = autoscaler_pb2_grpc.AutoscalerStateServiceStub(channel)
    value = os.urandom(VALUE_BYTES)

    async def state(_number: int) -> None:
        request = auto.GetClusterResourceStateRequest()
        answer: Any = await demand.GetClusterResourceState(request)
        assert answer.cluster_resource_state.node_states, "no node in the answer"

    questions: dict[str, Question] = {
        "kv_put": lambda number: kv.Put(g.KvPutRequest(key=b"%d" % (number % 100), value=value)),
        "kv_get": lambda number: kv.Get(g.KvGetRequest(key=b"%d" % (number % 100))),
        "demand": state,
    }
    samples: dict[str, list[float]] = {}
    for name, ask in questions.items():
        await ask(0)
        samples[name] = await _timed(ask, seconds)
    await channel.close()
    return samples


async def _timed(ask: Question, seconds: float) -> list[float]:
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        await ask(len(samples))
        samples.append((time.perf_counter() - start) * 1e3)
    return samples


async def _watched(address: str) -> tuple[float, dict[str, float], dict[str, float]]:
    """Until cancelled: the longest stall of the service's I/O loop, lags, processor shares in %."""
    channel = make_channel(address, own_connection=True)
    stub = gcs_pb2_grpc.StatusServiceStub(channel)
    stalls_ms: list[float] = []
    lags: dict[str, list[float]] = {name: [] for name in EXECUTORS}
    looks: list[tuple[float, dict[str, float]]] = []
    try:
        while True:
            await asyncio.sleep(LOOK_S)
            status: Any = await stub.GetClusterStatus(g.GetStatusRequest())
            stalls_ms.append(status.counters[STALL_COUNTER] / 1e3)
            looks.append((time.monotonic(), {e.name: e.cpu_ms for e in status.executors}))
            for one in status.executors:
                lags[one.name].append(one.lag_ms)
    except asyncio.CancelledError:
        medians = {name: quantile(each, 0.5) for name, each in lags.items()}
        (start, before), (end, after) = looks[0], looks[-1]
        busy = {name: (after[name] - before[name]) / (end - start) / 10 for name in EXECUTORS}
        return max(stalls_ms, default=0.0), medians, busy
    finally:
        await channel.close()


def quantile(samples: list[float], share: float) -> float:
    """The sample below which this share of all samples lies; 0 without any."""
    ordered = sorted(samples)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


@contextmanager
def fleet(address: str, nodes: int, *, own_streams: bool) -> Generator[None]:
    """Agents with the real core and the real session, all in one process."""
    flags = ["--gcs-address", address, "--nodes", str(nodes), "--num-cpus", str(NODE_CPUS)]
    flags += ["--own-streams"] if own_streams else []
    with running("raylet_agent.fleet", *flags):
        yield


@contextmanager
def running(module: str, *arguments: str) -> Generator[None]:
    """A process beside us, from its first line on standard output until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=_yield_to_us,  # noqa: PLW1509 - no thread runs yet that could hold a lock
    )
    assert process.stdout is not None
    try:
        if not process.stdout.readline():
            raise RuntimeError(f"{module} ended before it was ready")
        yield
    finally:
        process.kill()
        process.wait()


def _prefer(pid: int) -> bool:
    """Lets a process go first: its neighbours stand for other machines. False: not allowed."""
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), PRIORITY)
    except PermissionError:
        return False
    return True


def _yield_to_us() -> None:
    os.nice(10)


if __name__ == "__main__":
    main()
