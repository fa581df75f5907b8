"""The client end of one stream to another process: calls out, results in, ownership both ways.

One write in flight; what queues up meanwhile goes as one columnar frame. Everything here runs on
the I/O thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

import grpc
from grpc import aio

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_common.transport.logs import get_logger
from driver_client import limits
from driver_client.core.call import CallRecord, CallTemplate
from driver_client.object_ref import entry_of
from driver_client.objects import entry as entries
from driver_client.shell.argument_references import add_references
from driver_client.shell.io_thread import IoThread
from driver_client.shell.peer_channels import PeerChannels

log = get_logger()


class PeerListener(Protocol):
    """Who decides what results and losses of a connection mean."""

    def results_arrived(self, connection: PeerConnection, count: int, busy_us: int) -> None:
        """`count` calls are over; values are set already."""
        ...

    def result_is_special(
        self,
        connection: PeerConnection,
        record: CallRecord,
        kind: int,
        value: bytes,
        detail: pb.ResultDetail | None,
    ) -> None:
        """A result that is not one plain value: an error, several values, references inside."""
        ...

    def calls_returned(self, connection: PeerConnection, records: list[CallRecord]) -> None:
        """The worker did not start these and will not."""
        ...

    def frame_extras(self, connection: PeerConnection, frame: pb.PeerReplyFrame) -> None:
        """A frame with anything but results."""
        ...

    def connection_lost(
        self, connection: PeerConnection, unfinished: list[CallRecord], message: str
    ) -> None:
        """The stream is over; `unfinished` in the order they were sent."""
        ...


class PeerConnection:
    """One stream to the process at `address`."""

    def __init__(
        self,
        io: IoThread,
        address: str,
        hello: pb.PeerHello,
        listener: PeerListener,
        channels: PeerChannels,
    ) -> None:
        self.address = address
        self.listener = listener
        self.queue: deque[CallRecord] = deque()
        self.in_flight: dict[int, CallRecord] = {}
        self.connected = False
        self.closed = False
        self._io = io
        self._hello: pb.PeerHello | None = hello
        self.owner_id = hello.sender_id
        self._control: pb.PeerFrame | None = None
        self._template_index: dict[CallTemplate, int] = {}
        self._sent_bodies: set[bytes] = set()
        self._new_functions: list[pb.FunctionDefinition] = []
        self._channels = channels
        self._stream: Any = None
        self._writer: asyncio.Task[None] | None = None
        self._task = io.keeper.start(self._run(), f"peer {address}")

    # ---- sending

    def send(self, records: Iterable[CallRecord]) -> None:
        """Queues calls."""
        self.queue.extend(records)
        self._write_soon()

    def control(self) -> pb.PeerFrame:
        """The frame that leaves next, for ownership traffic to be added to."""
        if self._control is None:
            self._control = pb.PeerFrame()
        self._write_soon()
        return self._control

    def cancel(self, sequence: int, *, force: bool, recursive: bool) -> bool:
        """Asks for the cancelling of a call that was given to this stream; whether it was."""
        if sequence not in self.in_flight and not any(r[0] == sequence for r in self.queue):
            return False
        owner = self.owner_id
        frame = self.control()
        frame.cancel_task_ids.append(owner + sequence.to_bytes(8, "big"))
        frame.cancel_force = force
        frame.cancel_recursive = recursive
        return True

    def close(self) -> None:
        """Ends the stream; nothing more is reported to the listener."""
        if not self.closed:
            self.closed = True
            self._task.cancel()

    def abort(self) -> list[CallRecord]:
        """Ends the stream now and hands over what was not answered."""
        unfinished = self._unfinished()
        self.close()
        return unfinished

    async def _run(self) -> None:
        stream = self._stream = self._channels.open(self.address)
        message = "closed"
        self._write_soon()
        try:
            try:
                message = await self._read(stream)
            finally:
                self._stream = None
                stream.cancel()
                if self._writer is not None:
                    self._writer.cancel()
                    await asyncio.gather(self._writer, return_exceptions=True)
        finally:
            lost = not self.closed
            self.closed = True
            self.connected = False
            if lost:
                self.listener.connection_lost(self, self._unfinished(), message)
            await self._channels.closed(self.address)

    def _unfinished(self) -> list[CallRecord]:
        unfinished = [*self.in_flight.values(), *self.queue]
        self.in_flight.clear()
        self.queue.clear()
        return unfinished

    def _write_soon(self) -> None:
        """Starts to write, unless a write is in flight: after that one it looks again.

        No task waits for work: with thousands of actors most streams are silent.
        """
        if self._writer is None and self._stream is not None:
            self._writer = self._io.loop.create_task(self._write(self._stream))

    async def _write(self, stream: Any) -> None:
        try:
            while self.queue or self._control is not None or self._hello is not None:
                await stream.write(self._frame())
        except (grpc.RpcError, asyncio.InvalidStateError):
            return  # the reader reports why
        except Exception:  # whatever it is, nobody may wait for answers to what was not sent
            log.exception("frame_not_sent", address=self.address)
            stream.cancel()
            return
        self._writer = None

    def _frame(self) -> pb.PeerFrame:
        frame = self._control or pb.PeerFrame()
        self._control = None
        if self._hello is not None:
            frame.hello.CopyFrom(self._hello)
            self._hello = None
        if self.queue:
            self._add_calls(frame)
        return frame

    def _add_calls(self, frame: pb.PeerFrame) -> None:
        batch = self._take()
        sequences, templates, payloads, _, extras = zip(*batch, strict=True)
        self.in_flight.update(zip(sequences, batch, strict=True))
        index = self._template_index
        try:
            functions = [index[template] for template in templates]
        except KeyError:
            if len(index) + len(templates) > limits.TEMPLATES_MAX:
                # The peer replaces what has a number by what gets that number now.
                index.clear()
                self._sent_bodies.clear()
            functions = [self._index_of(template) for template in templates]
            frame.functions.extend(self._new_functions)
            self._new_functions.clear()
        calls = frame.calls
        calls.task_seq.extend(sequences)
        calls.function.extend(functions)
        calls.payload.extend(payloads)
        if any(extras):
            self._add_details(calls, batch)

    def _take(self) -> list[CallRecord]:
        queue = self.queue
        batch: list[CallRecord] = []
        size = 0
        while queue and len(batch) < limits.CALL_FRAME_ITEMS_MAX:
            record = queue.popleft()
            batch.append(record)
            size += len(record[2])
            if record[4] is not None:
                size += sum(len(entry_of(ref).data) for _, ref in record[4].arguments)
            if size > limits.CALL_FRAME_BYTES_MAX:
                break
        return batch

    def _index_of(self, template: CallTemplate) -> int:
        known = self._template_index.get(template)
        if known is not None:
            return known
        number = self._template_index[template] = len(self._template_index)
        body = template.body
        definition = pb.FunctionDefinition(
            index=number,
            method_name=template.method_name,
            num_returns=template.num_returns,
            concurrency_group=template.concurrency_group,
            placement_group_id=template.placement_group_id,
            capture_child_tasks=template.capture_child_tasks,
            call_name=template.call_name,
            streaming=template.streaming,
            dynamic_returns=template.dynamic,
            generator_backpressure=template.backpressure,
            max_calls=template.max_calls,
            without_events=template.without_events,
        )
        if body is not None:
            definition.hash = body.hash
            definition.name = body.name
            if body.hash not in self._sent_bodies:
                self._sent_bodies.add(body.hash)
                definition.pickled = body.pickled
                definition.source_file = body.source_file
        self._new_functions.append(definition)
        return number

    def _add_details(self, calls: pb.CallBatch, batch: list[CallRecord]) -> None:
        for position, record in enumerate(batch):
            extra = record[4]
            if extra is None or not extra.arguments:
                continue
            add_references(calls.details.add(position=position).references, extra)

    # ---- receiving

    async def _read(self, stream: Any) -> str:
        while True:
            try:
                frame = await stream.read()
            except grpc.RpcError as error:
                return _reason(error)
            except asyncio.InvalidStateError:
                return "the stream was closed"
            if frame is aio.EOF:
                return await _end_reason(stream)
            self.connected = True
            results: pb.ResultBatch = frame.results
            if results.task_seq:
                self._take_results(results)
            if frame.ByteSize() and _has_extras(frame):
                self._take_extras(frame)

    def _take_results(self, results: pb.ResultBatch) -> None:
        in_flight = self.in_flight
        sequences = results.task_seq
        kinds = results.kinds
        if not results.details and kinds.count(0) == len(kinds):
            for sequence, value in zip(sequences, results.value, strict=True):
                record = in_flight.pop(sequence, None)
                if record is not None:
                    entry = record[3]
                    entry.data = value
                    entry.state = entries.VALUE
                    if entry.waiters is not None:
                        entry.tell()
            if entries.any_watchers:
                entries.open_gates(entries.any_watchers)
        else:
            self._take_special(results)
        over = len(sequences) - kinds.count(pb.RESULT_KIND_STREAM_ITEM)
        if over:
            self.listener.results_arrived(self, over, results.busy_us)

    def _take_special(self, results: pb.ResultBatch) -> None:
        details = {detail.position: detail for detail in results.details}
        for position, (sequence, value) in enumerate(
            zip(results.task_seq, results.value, strict=True)
        ):
            kind = results.kinds[position]
            if kind == pb.RESULT_KIND_STREAM_ITEM:
                record = self.in_flight.get(sequence)
            else:
                record = self.in_flight.pop(sequence, None)
            if record is None:
                continue
            detail = details.get(position)
            if kind == pb.RESULT_KIND_VALUE and detail is None:
                record[3].complete(value, entries.VALUE)
            else:
                self.listener.result_is_special(self, record, kind, value, detail)

    def _take_extras(self, frame: pb.PeerReplyFrame) -> None:
        if frame.returned_task_seqs:
            records = [self.in_flight.pop(seq, None) for seq in frame.returned_task_seqs]
            self.listener.calls_returned(self, [r for r in records if r is not None])
        self.listener.frame_extras(self, frame)
        if frame.closing:
            self.control().closing_read = True


def _has_extras(frame: pb.PeerReplyFrame) -> bool:
    return bool(
        frame.returned_task_seqs
        or frame.actor_states
        or frame.borrow_acks
        or frame.object_states
        or frame.HasField("actor_created")
        or frame.HasField("refused")
        or frame.closing
    )


def _reason(error: grpc.RpcError) -> str:
    code = getattr(error, "code", lambda: None)()
    details = getattr(error, "details", lambda: "")()
    return f"{code.name if code else 'error'}: {details}"


async def _end_reason(stream: Any) -> str:
    try:
        code = await stream.code()
        return f"{code.name}: {await stream.details()}"
    except (grpc.RpcError, asyncio.InvalidStateError):
        return "the stream ended"
