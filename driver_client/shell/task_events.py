"""What this process executed, and when (DESIGN section 15: a light tuple on the hot path).

A row is appended where a result is answered. Rows leave together, about once a second while there
are any, as one encoded batch on the worker's link to its agent; a driver keeps its own. When the
list is full, new rows are counted and not kept, so an execution is known whole or counted as lost.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

import msgspec

from cluster_api.v1 import task_events_pb2 as pb
from driver_client import limits
from driver_client.shell import running
from driver_client.shell.io_thread import IoThread
from driver_client.shell.process_facts import ProcessFacts

SWITCH_VARIABLE = "SHOAL_TASK_EVENTS"
"""`0`: this process records nothing."""

KIND_STEP = 16
"""A row's kind: what it was (TaskEventKind) times this, plus how it ended (ResultKind)."""

TASK = pb.TASK_EVENT_KIND_TASK * KIND_STEP
ACTOR_TASK = pb.TASK_EVENT_KIND_ACTOR_TASK * KIND_STEP
ACTOR_CREATION = pb.TASK_EVENT_KIND_ACTOR_CREATION * KIND_STEP
WAIT = pb.TASK_EVENT_KIND_WAIT * KIND_STEP
QUIET = -1
"""In place of a kind: executions of this function are not recorded."""

Row = tuple[bytes, int, str, int, int, int]
"""(sender id, task sequence, name, start in ns of `perf_counter`, duration in µs, kind)"""


class TaskEvents:
    """`rows` may be appended to by any thread, up to `capacity`; all else is for the I/O thread."""

    def __init__(self, io: IoThread, facts: ProcessFacts) -> None:
        is_on = os.environ.get(SWITCH_VARIABLE) != "0"
        self.rows: list[Row] = []
        self.capacity = limits.TASK_EVENTS_UNSENT_MAX if is_on else 0
        self.lost = 0
        self.send: Callable[[pb.TaskEventBatch], None] | None = None
        """Where batches go; a driver has nobody to send them to."""
        self._io = io
        self._facts = facts
        self._timer: asyncio.TimerHandle | None = None

    def add(self, row: Row) -> None:
        """One row, away from the hot path (which does the same in line). Any thread."""
        if len(self.rows) >= self.capacity:
            if self.send is not None or not self.capacity:
                self.lost += 1
                return
            # A driver keeps what it did last.
            old = self.capacity // 2
            del self.rows[:old]
            self.lost += old
        self.rows.append(row)

    def add_alone(self, row: Row) -> None:
        """The same where no result leaves that would see to the sending. Any thread."""
        self.add(row)
        self._io.post(self.flush_later)

    def waited(self, name: str, started_ns: int) -> None:
        """A user thread waited in `get` or `wait` since `started_ns`. Any thread."""
        took_us = (time.perf_counter_ns() - started_ns) // 1000
        if took_us < limits.WAIT_EVENT_US_MIN:
            return
        inside = running.current.get()
        task = inside.task_id if inside is not None else self._facts.owner_id + bytes(8)
        sequence = int.from_bytes(task[-8:], "big")
        self.add((task[:-8], sequence, name, started_ns, took_us, WAIT))

    def flush_later(self) -> None:
        """There are rows: they are sent soon, with those that come until then."""
        if self._timer is None and self.send is not None and self.rows:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(limits.TASK_EVENTS_FLUSH_S, self.flush)

    def flush(self, *, asked: bool = False) -> None:
        """Sends what there is. `asked`: somebody waits to hear that this is all."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.send is None:
            return
        while len(self.rows) > limits.TASK_EVENTS_BATCH_MAX:
            self.send(self.batch())
        if self.rows or asked:
            last = self.batch()
            last.flushed = asked
            self.send(last)

    def batch(self) -> pb.TaskEventBatch:
        """Takes the oldest rows out; threads append behind them meanwhile."""
        rows = self.rows[: limits.TASK_EVENTS_BATCH_MAX]
        del self.rows[: len(rows)]
        lost, self.lost = self.lost, 0
        return self._encoded(rows, lost)

    def kept(self) -> pb.TaskEventBatch:
        """What a driver has, and keeps; a worker's rows are its agent's."""
        return self._encoded([] if self.send is not None else list(self.rows), 0)

    def _encoded(self, rows: list[Row], lost: int) -> pb.TaskEventBatch:
        facts = self._facts
        return pb.TaskEventBatch(
            worker_id=facts.owner_id,
            pid=os.getpid(),
            job_id=facts.job_id,
            actor_id=facts.actor_id,
            node_id=facts.node_id,
            is_driver=facts.is_driver,
            rows=msgspec.msgpack.encode(rows),
            count=len(rows),
            clock_ns=time.time_ns() - time.perf_counter_ns(),
            lost=lost if self.capacity else 0,
        )


def rows_of(batch: pb.TaskEventBatch) -> list[Row]:
    """The rows of a batch.

    Raises:
        msgspec.DecodeError: they are of a version that this one does not know.
    """
    return msgspec.msgpack.decode(batch.rows, type=list[Row])
