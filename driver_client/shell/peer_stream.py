"""The server end of one caller's stream: its functions, results on the way out, its watches."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import types_pb2 as t
from driver_client import limits
from driver_client.shell.io_thread import IoThread

Result = tuple[int, bytes, int, "pb.ResultDetail | None", int]
"""(task sequence, serialized value or error, ResultKind, sparse detail, execution time in µs)"""


class PeerStream:
    """Results may be appended by execution threads; everything else belongs to the I/O thread."""

    def __init__(self, io: IoThread) -> None:
        self.sender_id = b""
        self.sender_address = ""
        self.lease_id = b""
        self.functions: dict[int, Any] = {}
        self.results: deque[Result] = deque()
        self.held: dict[bytes, list[Any]] = {}
        self.borrows: set[bytes] = set()
        self.closed = False
        self.answered: Callable[[], None] | None = None
        """Called when results leave."""
        self.consumed: dict[int, int] = {}
        self.consumer_gates: dict[int, threading.Event] = {}
        self.read_to_its_end = asyncio.Event()
        """The caller read everything before `closing`, or is gone."""
        self._io = io
        self._extras: pb.PeerReplyFrame | None = None
        self._awake = False
        self._is_closing = False
        self._wake = asyncio.Event()

    # ---- any thread

    def push(self, result: Result) -> None:
        """Queues a result; wakes the writer unless it is about to look."""
        self.results.append(result)
        if not self._awake:
            self._awake = True
            self._io.loop.call_soon_threadsafe(self._wake.set)

    # ---- I/O thread

    def extras(self) -> pb.PeerReplyFrame:
        """The frame that leaves next, for anything but results."""
        if self._extras is None:
            self._extras = pb.PeerReplyFrame()
        self._wake.set()
        return self._extras

    def items_consumed(self, sequence: int, items: int) -> None:
        """The caller took that many items of a generator."""
        self.consumed[sequence] = items
        gate = self.consumer_gates.get(sequence)
        if gate is not None:
            gate.set()

    def actor_changed(self, record: t.ActorRecord) -> None:
        """A watched actor's record."""
        if not self.closed:
            self.extras().actor_states.append(record)

    def say_closing(self) -> None:
        """No result follows those queued: asks the caller to say when it has read them."""
        self._is_closing = True
        self._wake.set()

    async def write(self, context: Any) -> None:
        """Sends until cancelled: one write in flight, everything queued in one frame."""
        while True:
            self._awake = False
            if not self.results and self._extras is None and not self._is_closing:
                self._wake.clear()
                if not self.results:
                    await self._wake.wait()
                continue
            self._awake = True
            await context.write(self._frame())

    def _frame(self) -> pb.PeerReplyFrame:
        frame = self._extras or pb.PeerReplyFrame()
        self._extras = None
        if self.results:
            self._add_results(frame.results)
            if self.answered is not None:
                self.answered()
        if self._is_closing and not self.results:
            frame.closing = True
            self._is_closing = False
        return frame

    def _add_results(self, batch: pb.ResultBatch) -> None:
        queue = self.results
        taken: list[Result] = []
        size = 0
        while queue and len(taken) < limits.RESULT_FRAME_ITEMS_MAX:
            result = queue.popleft()
            taken.append(result)
            size += len(result[1])
            if result[3] is not None:
                size += sum(map(len, result[3].values))
            if size > limits.CALL_FRAME_BYTES_MAX:
                break
        sequences, values, kinds, details, busy = zip(*taken, strict=True)
        batch.task_seq.extend(sequences)
        batch.value.extend(values)
        batch.kinds = bytes(kinds)
        batch.busy_us = sum(busy)
        if any(details):
            for position, detail in enumerate(details):
                if detail is not None:
                    detail.position = position
                    batch.details.append(detail)
