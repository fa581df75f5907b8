"""Calls to one actor, in order, across restarts: the same for its owner and for everybody else.

Whoever knows the actor's state (the owner's host, or a watch) tells this object `alive`,
`restarting` or `died`; it decides what becomes of queued and of lost calls.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import types_pb2 as t
from driver_client import exceptions, limits
from driver_client.core.call import CallRecord
from driver_client.object_ref import entry_of
from driver_client.objects import entry as entries
from driver_client.shell.death_errors import actor_died_error
from driver_client.shell.owner_services import OwnerServices
from driver_client.shell.peer_connection import PeerConnection

_LIMBO_S = 1.0
_RESERVING = threading.Lock()
"""One for all: it is held for two comparisons, and most actors have no limit."""


class ActorHostHooks(Protocol):
    """The owner's side of the connection (None for borrowed handles)."""

    def creation_answered(self, created: pb.ActorCreated) -> None:
        """The constructor returned or raised."""
        ...

    def stream_lost(self, connection: PeerConnection, unfinished: list[CallRecord]) -> None:
        """The worker's stream broke."""
        ...


class ActorClient:
    """One per actor and process.

    I/O thread only, except `queue.append` and the flags read by users.
    """

    def __init__(self, actor_id: bytes, services: OwnerServices, name: str) -> None:
        self.actor_id = actor_id
        self.name = name
        self.dirty = False
        self.queue: deque[CallRecord] = deque()
        self.out_of_order = False
        """Calls whose arguments are not ready do not hold up later ones."""
        self.waiting: dict[int, CallRecord] = {}
        """Those calls, by sequence."""
        self.death: bytes | None = None
        self.hooks: ActorHostHooks | None = None
        self.connection: PeerConnection | None = None
        self.incarnation = 0
        self.outstanding = 0
        self.on_idle: Callable[[], None] | None = None
        self._reserved = 0
        self._answered = 0
        self._services = services
        self._limbo: list[CallRecord] = []
        self._attempts: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._reattach: tuple[str, bytes] | None = None

    # ---- from the submitting side

    @property
    def pending(self) -> int:
        """Calls of handles with `max_pending_calls` that are not answered."""
        return self._reserved - self._answered

    def reserve(self, limit: int) -> bool:
        """Counts one call of a handle with `max_pending_calls`; False: too many. Any thread."""
        with _RESERVING:
            if self._reserved - self._answered >= limit:
                return False
            self._reserved += 1
            return True

    def flush(self) -> None:
        """Sends what is queued and ready, in order."""
        self.dirty = False
        if self.death is not None:
            self._fail_all()
            return
        connection = self.connection
        queue = self.queue
        if connection is None or not queue:
            return
        batch: list[CallRecord] = []
        while queue:
            extra = queue[0][4]
            if extra is not None and extra.unready:
                break
            record = queue.popleft()
            if extra is not None and self._argument_failed(record):
                continue
            batch.append(record)
        if batch:
            connection.send(batch)

    def arguments_ready(self, sequence: int) -> None:
        """A call of an out-of-order actor that waited for its arguments can go."""
        record = self.waiting.pop(sequence, None)
        if record is not None:
            self.queue.append(record)
            self.flush()

    def _argument_failed(self, record: CallRecord) -> bool:
        extra = record[4]
        for _, ref in extra.arguments if extra is not None else ():
            entry = entry_of(ref)
            if entry.state == entries.ERROR:
                self._done(record)
                self._services.complete_all(record, entry.data, entries.ERROR)
                return True
        return False

    # ---- from who knows the state

    def attach(self, connection: PeerConnection, incarnation: int) -> None:
        """The actor can be called on this stream."""
        self.connection = connection
        self.incarnation = incarnation
        self._settle_limbo(alive=True)
        self.flush()

    def alive(self, address: str, worker_id: bytes, incarnation: int) -> None:
        """A watched actor runs at this address."""
        if self.death is not None or (incarnation, True) == (self.incarnation, self._is_connected):
            return
        self.detach()
        self._reattach = (address, worker_id)
        self.attach(self._services.connect(address, worker_id, self), incarnation)

    @property
    def place(self) -> tuple[str, bytes] | None:
        """(address, worker id) of a watched actor as far as it is known to run."""
        return self._reattach

    @property
    def _is_connected(self) -> bool:
        return self.connection is not None and not self.connection.closed

    def restarting(self) -> None:
        """A new incarnation is being started: calls wait for it."""
        self._reattach = None
        self._settle_limbo(alive=False)

    def died(self, death: t.ActorDeath) -> None:
        """No call will be answered any more."""
        if self.death is None:
            error = actor_died_error(self.actor_id, self.name, death)
            self.death = exceptions.pickle_error(error)
        self.detach()
        self._fail_all()

    def detach(self) -> None:
        """Forgets the stream; what was not answered goes to limbo."""
        connection, self.connection = self.connection, None
        if connection is not None and not connection.closed:
            self._limbo += connection.abort()

    def cancel(self, sequence: int, *, recursive: bool) -> bool:
        """Cancels a call; whether it is queued or in flight here."""
        for record in (*self.queue, *self.waiting.values()):
            if record[0] == sequence:
                if self.waiting.pop(sequence, None) is None:
                    self.queue.remove(record)
                self._done(record)
                self._services.cancel_record(record)
                return True
        connection = self.connection
        return connection is not None and connection.cancel(
            sequence, force=False, recursive=recursive
        )

    def retire(self) -> None:
        """No handle is left here: the stream closes once everything is answered."""
        if self.outstanding <= 0:
            self.detach()
        else:
            self.on_idle = self.detach

    # ---- limbo: sent, not answered, stream gone

    def _settle_limbo(self, *, alive: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lost, self._limbo = self._limbo, []
        again: list[CallRecord] = []
        for record in lost:
            if self._use_attempt(record):
                again.append(record)
            else:
                self._done(record)
                text = (
                    f"the call of {record[1].call_name} was lost: the actor "
                    f"{'restarted' if alive else 'restarts'}; "
                    "set max_task_retries to have calls repeated"
                )
                error = exceptions.ActorUnavailableError(text, self.actor_id.hex())
                self._services.fail(record, error)
        self.queue.extendleft(reversed(again))

    def _use_attempt(self, record: CallRecord) -> bool:
        allowed = record[1].max_retries
        used = self._attempts.get(record[0], 0)
        if allowed >= 0 and used >= allowed:
            return False
        self._attempts[record[0]] = used + 1
        return True

    def _forget_attempts(self) -> None:
        """Plain answers are only counted: calls that were repeated and answered are still here."""
        known = {record[0] for record in (*self.queue, *self.waiting.values(), *self._limbo)}
        if self.connection is not None:
            known.update(self.connection.in_flight)
        self._attempts = {s: used for s, used in self._attempts.items() if s in known}

    def _done(self, record: CallRecord) -> None:
        self.outstanding -= 1
        self._answered += 1
        if self._attempts:
            self._attempts.pop(record[0], None)
        if self.on_idle is not None and self.outstanding <= 0:
            self.on_idle()

    def _fail_all(self) -> None:
        assert self.death is not None, "only dead actors fail their calls"
        lost, self._limbo = [*self._limbo, *self.waiting.values()], []
        self.waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while lost or self.queue:
            record = lost.pop(0) if lost else self.queue.popleft()
            self._done(record)
            self._services.complete_all(record, self.death, entries.ERROR)

    # ---- PeerListener

    def results_arrived(self, connection: PeerConnection, count: int, busy_us: int) -> None:
        """Counts answers."""
        self.outstanding -= count
        self._answered += count
        if self._attempts and len(self._attempts) > limits.ATTEMPTS_KEPT + self.outstanding:
            self._forget_attempts()
        if self.on_idle is not None and self.outstanding <= 0:
            self.on_idle()

    def result_is_special(
        self,
        connection: PeerConnection,
        record: CallRecord,
        kind: int,
        value: bytes,
        detail: pb.ResultDetail | None,
    ) -> None:
        """Errors that may be retried are; everything else completes the entry."""
        retry = kind == pb.RESULT_KIND_ERROR and self._services.may_retry_error(record, value)
        if retry and self._use_attempt(record):
            self.outstanding += 1
            self._answered -= 1
            self.queue.append(record)
            self.flush()
            return
        self._attempts.pop(record[0], None)
        self._services.complete_special(connection, record, kind, value, detail)

    def calls_returned(self, connection: PeerConnection, records: list[CallRecord]) -> None:
        """Not started by a worker that is ending: they wait for the next state."""
        self.queue.extendleft(reversed(records))
        if self.death is not None:
            self._fail_all()

    def frame_extras(self, connection: PeerConnection, frame: pb.PeerReplyFrame) -> None:
        """The constructor's outcome, or answers for the ownership tables."""
        if frame.HasField("actor_created") and self.hooks is not None:
            self.hooks.creation_answered(frame.actor_created)
        self._services.take_extras(connection, frame)

    def connection_lost(
        self, connection: PeerConnection, unfinished: list[CallRecord], message: str
    ) -> None:
        """The stream broke: the next state decides."""
        if self.connection is connection:
            self.connection = None
        if self.hooks is not None:
            self.hooks.stream_lost(connection, unfinished)
            return
        self.lost(unfinished)

    def lost(self, unfinished: list[CallRecord]) -> None:
        """Calls that were sent and not answered wait for the actor's next state, for a while."""
        self._limbo += unfinished
        if self.death is not None:
            self._fail_all()
        elif self.hooks is None and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_LIMBO_S, self._limbo_over)

    def _limbo_over(self) -> None:
        """Nobody said that the actor changed: only its connection broke. Try it again."""
        self._timer = None
        self._settle_limbo(alive=False)
        if self.connection is None and self._reattach is not None and self.death is None:
            address, worker_id = self._reattach
            connection = self._services.connect(address, worker_id, self)
            self.attach(connection, self.incarnation)
