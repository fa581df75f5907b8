"""What tasks and actors need of the process: ids, streams, the rules for completing entries."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_common import ids
from driver_client import exceptions
from driver_client.core.call import CallRecord
from driver_client.objects import entry as entries
from driver_client.objects import serialization
from driver_client.objects.entry import Entry
from driver_client.shell.io_thread import IoThread
from driver_client.shell.peer_channels import PeerChannels
from driver_client.shell.peer_connection import PeerConnection, PeerListener

ResolveReference = Callable[[bytes, str], Any]
TakeExtras = Callable[[PeerConnection, pb.PeerReplyFrame], None]


def _at_once(_object_ids: list[bytes], then: Callable[[], None]) -> None:
    then()


class OwnerServices:
    """Identity of this owner and the one place where results become values."""

    def __init__(
        self, io: IoThread, owner_id: bytes, make_hello: Callable[[], pb.PeerHello]
    ) -> None:
        self.io = io
        self.owner_id = ids.OwnerId(owner_id)
        self.sequence = itertools.count(1)
        self._make_hello = make_hello
        self._channels = PeerChannels()
        self.take_extras: TakeExtras = lambda _connection, _frame: None
        self.resolve: ResolveReference | None = None
        self.after_acknowledged: Callable[[list[bytes], Callable[[], None]], None] = _at_once
        self.own_address = ""
        self.worker_node_id = b""
        """Of a worker, which dies with its node; empty in a driver."""
        self.generator_connections: dict[int, PeerConnection] = {}
        """Where the generators run whose consumers give back-pressure."""

    def next_id(self) -> ids.TaskId:
        """A new task, lease, actor or group id."""
        return ids.task_id(self.owner_id, next(self.sequence))

    @staticmethod
    def now_ms() -> int:
        """Monotonic milliseconds, for cores."""
        return time.monotonic_ns() // 1_000_000

    @staticmethod
    def wall_ms() -> int:
        """Wall-clock milliseconds, for records."""
        return time.time_ns() // 1_000_000

    def connect(
        self, address: str, worker_id: bytes, listener: PeerListener, lease_id: bytes = b""
    ) -> PeerConnection:
        """Opens a stream to another process."""
        hello = self._make_hello()
        hello.receiver_id = worker_id
        hello.lease_id = lease_id
        return PeerConnection(self.io, address, hello, listener, self._channels)

    # ---- completing

    def complete_all(self, record: CallRecord, data: bytes, state: int) -> None:
        """Completes every return of a call with the same value or error."""
        entry = record[3]
        entry.complete(data, state)
        if entry.generator is not None:
            entry.generator.ended()
            self.generator_connections.pop(record[0], None)
        for sibling in entry.siblings or ():
            sibling.complete(data, state)

    def cancel_record(self, record: CallRecord) -> None:
        """Completes every return of a call that was cancelled before it ran."""
        task = ids.task_id(self.owner_id, record[0])
        self.fail(record, exceptions.TaskCancelledError(task.hex()))

    def fail(self, record: CallRecord, error: BaseException) -> None:
        """Completes every return of a call with an error."""
        self.complete_all(record, exceptions.pickle_error(error), entries.ERROR)

    def complete_special(
        self,
        connection: PeerConnection,
        record: CallRecord,
        kind: int,
        value: bytes,
        detail: pb.ResultDetail | None,
    ) -> None:
        """Completes a call whose result is an error, several values, or holds references."""
        entry = record[3]
        if detail is not None and detail.contained and entry.generator is None:
            self._adopt(connection, record, detail)
        if kind == pb.RESULT_KIND_MULTIPLE and detail is not None:
            for target, part in zip([entry, *(entry.siblings or ())], detail.values, strict=False):
                target.complete(part, entries.VALUE)
        elif kind == pb.RESULT_KIND_STREAM_ITEM and detail is not None:
            self._item(connection, record, value, detail)
        elif kind == pb.RESULT_KIND_CANCELLED:
            self.cancel_record(record)
        elif kind == pb.RESULT_KIND_ERROR:
            self.complete_all(record, value, entries.ERROR)
        else:
            self.complete_all(record, value, entries.VALUE)

    def _item(
        self,
        connection: PeerConnection,
        record: CallRecord,
        value: bytes,
        detail: pb.ResultDetail,
    ) -> None:
        """One item of a generator."""
        assert self.resolve is not None, "the runtime sets this before the first call"
        if record[1].backpressure:
            self.generator_connections[record[0]] = connection
        made = record[3].generator.add(detail.item_index, value)
        if made is not None and detail.contained:
            made.contained = [self.resolve(c.object_id, c.owner_address) for c in detail.contained]

    def _adopt(
        self, connection: PeerConnection, record: CallRecord, detail: pb.ResultDetail
    ) -> None:
        """References inside a result live as long as the result; then the worker may let go."""
        assert self.resolve is not None, "the runtime sets this before the first call"
        returns: list[Entry] = [record[3], *(record[3].siblings or ())]
        for contained in detail.contained:
            holder = returns[min(contained.return_index, len(returns) - 1)]
            if holder.contained is None:
                holder.contained = []
            holder.contained.append(self.resolve(contained.object_id, contained.owner_address))
        task = ids.task_id(self.owner_id, record[0])

        def release() -> None:
            if not connection.closed:
                connection.control().release_results.append(task)

        self.after_acknowledged([c.object_id for c in detail.contained], release)

    def may_retry_error(self, record: CallRecord, value: bytes) -> bool:
        """Whether the function's `retry_exceptions` covers this error."""
        rule = record[1].retry_exceptions
        if rule is False:
            return False
        if rule is True:
            return True
        error = serialization.loads(value)
        return isinstance(getattr(error, "cause", error), rule)
