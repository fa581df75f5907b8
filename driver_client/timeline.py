"""`timeline`: what the cluster's workers did, as Chrome's tracing format shows it.

Every node's agent is asked once; what it has is collected from its workers at that moment. A node
is a process there and a worker is a thread; times are wall clock in microseconds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc

from cluster_api.v1 import agent_pb2 as agent
from cluster_api.v1 import agent_pb2_grpc as rpc
from cluster_api.v1 import core_worker_pb2 as cw
from cluster_api.v1 import gcs_pb2 as gcs
from cluster_api.v1 import types_pb2 as t
from cluster_api.v1.task_events_pb2 import TaskEventBatch
from cluster_common import ids
from cluster_common.transport.endpoints import make_channel
from cluster_common.transport.logs import get_logger
from driver_client import limits, process
from driver_client.shell.runtime import Runtime
from driver_client.shell.task_events import ACTOR_CREATION, ACTOR_TASK, KIND_STEP, TASK, WAIT, Row
from driver_client.shell.task_events import rows_of as decoded

log = get_logger()

_CATEGORIES = {
    TASK: "task",
    ACTOR_TASK: "actor_task",
    ACTOR_CREATION: "actor_creation",
    WAIT: "wait",
}
_OUTCOMES = {cw.RESULT_KIND_ERROR: "FAILED", cw.RESULT_KIND_CANCELLED: "CANCELLED"}
_COLORS = {"FAILED": "terrible", "CANCELLED": "grey"}

Event = dict[str, Any]


def timeline(filename: str | None = None) -> list[Event] | None:
    """Executions of tasks, actor calls and constructors on all nodes that are alive.

    Args:
        filename: a JSON file to write, for `chrome://tracing` or a viewer that reads its format;
            None: the events are returned.

    Raises:
        RuntimeError: `init` was not called.
        RpcError: the GCS cannot be reached.
    """
    runtime = process.connected_runtime()
    nodes, batches = runtime.io.call(_collect(runtime))
    events = trace_of(nodes, batches)
    if filename is None:
        return events
    Path(filename).write_text(json.dumps(events), encoding="utf-8")
    return None


async def _collect(runtime: Runtime) -> tuple[list[t.NodeRecord], list[TaskEventBatch]]:
    link = runtime.gcs()
    answer = await link.call(link.nodes.GetAllNodes, gcs.GetAllNodesRequest(alive_only=True))
    nodes = list(answer.nodes)
    turns = asyncio.Semaphore(limits.AGENT_SESSIONS_OPENING_MAX)
    found = await asyncio.gather(*(_of_node(node, turns) for node in nodes))
    return nodes, [runtime.events.kept(), *(batch for batches in found for batch in batches)]


async def _of_node(node: t.NodeRecord, turns: asyncio.Semaphore) -> list[TaskEventBatch]:
    batches: list[TaskEventBatch] = []
    async with turns, make_channel(node.address) as channel:
        call: Any = rpc.AgentServiceStub(channel).GetTaskEvents(
            agent.GetTaskEventsRequest(), timeout=limits.TASK_EVENTS_ASK_S
        )
        try:
            async for batch in call:
                batches.append(batch)  # noqa: PERF401 - what came before a break is kept
        except grpc.RpcError as error:
            log.warning("task_events_missing", node=node.node_id.hex(), why=str(error))
    return batches


def trace_of(nodes: Iterable[t.NodeRecord], batches: Iterable[TaskEventBatch]) -> list[Event]:
    """The trace: names of nodes and workers, one complete event an execution, losses."""
    threads = _Threads({node.node_id: node.node_name or node.address for node in nodes})
    events: list[Event] = []
    lost: dict[bytes, int] = {}
    for batch in batches:
        if batch.lost:
            lost[batch.job_id] = lost.get(batch.job_id, 0) + batch.lost
        if batch.count:
            process_number, thread = threads.of(batch)
            shared = _shared_arguments(batch)
            rows = decoded(batch)
            events += [_event(row, batch, process_number, thread, shared) for row in rows]
    for job_id, count in lost.items():
        log.warning("task_events_lost", job=job_id.hex(), executions=count)
        arguments = {"job_id": job_id.hex(), "executions": count}
        events.append({"ph": "M", "pid": 0, "name": "lost_executions", "args": arguments})
    events.sort(key=lambda event: event.get("ts", 0.0))
    return [*threads.names, *events]


class _Threads:
    """Numbers for nodes and workers, and the events that name them."""

    def __init__(self, nodes: dict[bytes, str]) -> None:
        self._nodes = nodes
        self._processes: dict[bytes, int] = {}
        self._threads: dict[bytes, int] = {}
        self.names: list[Event] = []

    def of(self, batch: TaskEventBatch) -> tuple[int, int]:
        """(process, thread) of a batch's worker."""
        node_id, worker_id = batch.node_id, batch.worker_id
        process_number = self._processes.get(node_id)
        if process_number is None:
            process_number = self._processes[node_id] = len(self._processes) + 1
            name = f"Node {self._nodes.get(node_id, node_id.hex())}"
            self._name(process_number, "process_name", name)
        thread = self._threads.get(worker_id)
        if thread is None:
            thread = self._threads[worker_id] = len(self._threads) + 1
            kind = "driver" if batch.is_driver else "worker"
            self._name(process_number, "thread_name", f"{kind}:{worker_id.hex()}", thread)
        return process_number, thread

    def _name(self, process_number: int, kind: str, name: str, thread: int = 0) -> None:
        event: Event = {"ph": "M", "pid": process_number, "name": kind, "args": {"name": name}}
        if thread:
            event["tid"] = thread
        self.names.append(event)


def _shared_arguments(batch: TaskEventBatch) -> Event:
    return {
        "job_id": batch.job_id.hex(),
        "node_id": batch.node_id.hex(),
        "worker_id": batch.worker_id.hex(),
        "os_pid": batch.pid,
    }


def _event(
    row: Row, batch: TaskEventBatch, process_number: int, thread: int, shared: Event
) -> Event:
    sender, sequence, name, start_ns, took_us, kind = row
    what = kind - kind % KIND_STEP
    state = _OUTCOMES.get(cw.ResultKind.ValueType(kind % KIND_STEP), "FINISHED")
    arguments = {**shared, "task_id": (sender + sequence.to_bytes(8, "big")).hex(), "state": state}
    if what in (ACTOR_TASK, ACTOR_CREATION) and len(batch.actor_id) == ids.TASK_ID_BYTES:
        arguments["actor_id"] = batch.actor_id.hex()
    event: Event = {
        "ph": "X",
        "cat": _CATEGORIES.get(what, "other"),
        "name": name,
        "pid": process_number,
        "tid": thread,
        "ts": (start_ns + batch.clock_ns) / 1000,
        "dur": took_us,
        "args": arguments,
    }
    if state in _COLORS:
        event["cname"] = _COLORS[state]
    return event
