"""What the node's workers did lately, as they sent it: kept for whoever asks, the oldest go first.

Batches are opaque here. Loss is counted by job: what fell out, and what workers say they lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1.task_events_pb2 import TaskEventBatch
from raylet_agent import limits
from raylet_agent.core.table_size import table
from raylet_agent.shell.host import Stream


class _Kept(msgspec.Struct, gc=False):
    """One batch, serialized: a message would keep the whole frame it came in."""

    job_id: bytes
    count: int
    data: bytes


class TaskEventStore:
    """Bounded by executions and bytes. Belongs to the agent's loop."""

    def __init__(self, node_id: bytes) -> None:
        self._node_id = node_id
        self._kept: deque[_Kept] = deque()
        self._rows = 0
        self._bytes = 0
        self._lost: dict[bytes, int] = {}
        self._unanswered: dict[bytes, list[asyncio.Event]] = {}

    def __len__(self) -> int:
        return self._rows

    def tables(self) -> list[a.AgentTable]:
        """Sizes and caps."""
        rows_max, bytes_max = limits.TASK_EVENTS_MAX, limits.TASK_EVENT_BYTES_MAX
        return [
            table("task_event", self._rows, rows_max, self._bytes, bytes_max),
            table("task_event_lost", len(self._lost), limits.TASK_EVENT_JOBS_MAX),
        ]

    def take(self, worker_id: bytes, batch: TaskEventBatch) -> None:
        """A worker's batch."""
        if batch.flushed:
            self.gone(worker_id)
            batch.flushed = False
        if batch.lost:
            self._count_lost(batch.job_id, batch.lost)
            batch.lost = 0
        if not batch.count:
            return
        kept = _Kept(batch.job_id, batch.count, batch.SerializeToString())
        self._kept.append(kept)
        self._rows += kept.count
        self._bytes += len(kept.data)
        while self._rows > limits.TASK_EVENTS_MAX or self._bytes > limits.TASK_EVENT_BYTES_MAX:
            oldest = self._kept.popleft()
            self._rows -= oldest.count
            self._bytes -= len(oldest.data)
            self._count_lost(oldest.job_id, oldest.count)

    def gone(self, worker_id: bytes) -> None:
        """A worker sent what it had, or will not send any more."""
        for answered in self._unanswered.pop(worker_id, ()):
            answered.set()

    async def collect(self, links: Mapping[bytes, Stream]) -> None:
        """Asks every worker for what it has not sent, and waits for it, for a bounded time."""
        answers: list[tuple[bytes, asyncio.Event]] = []
        for worker_id, link in links.items():
            answered = asyncio.Event()
            answers.append((worker_id, answered))
            self._unanswered.setdefault(worker_id, []).append(answered)
            link.outbox.put(a.WorkerCommand(flush_task_events=a.FlushTaskEvents()))
        # A worker that hangs is shown as far as it is known.
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.TASK_EVENTS_COLLECT_MS / 1000):
                for _, answered in answers:
                    await answered.wait()
        for worker_id, answered in answers:
            waiting = self._unanswered.get(worker_id, [])
            if answered in waiting:
                waiting.remove(answered)
            if not waiting:
                self._unanswered.pop(worker_id, None)

    def batches(self, job_id: bytes) -> Iterator[TaskEventBatch]:
        """What is kept, oldest first, of one job or of all; then what was lost, by job."""
        for kept in list(self._kept):
            if not job_id or kept.job_id == job_id:
                yield TaskEventBatch.FromString(kept.data)
        for job, lost in self._losses(job_id):
            yield TaskEventBatch(node_id=self._node_id, job_id=job, lost=lost)

    def _losses(self, job_id: bytes) -> Iterable[tuple[bytes, int]]:
        return [(job, lost) for job, lost in self._lost.items() if not job_id or job == job_id]

    def _count_lost(self, job_id: bytes, lost: int) -> None:
        self._lost[job_id] = self._lost.pop(job_id, 0) + lost
        if len(self._lost) > limits.TASK_EVENT_JOBS_MAX:
            del self._lost[next(iter(self._lost))]
