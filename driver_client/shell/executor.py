"""Runs what callers send to this worker: tasks one by one, or the calls of one actor.

Plain functions and methods run on the main thread (signals reach them); actors with `async def`
methods run on an event loop there; `max_concurrency` above one gives a plain actor that many
threads.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_common import ids
from driver_client import limits
from driver_client.shell import leaving, running
from driver_client.shell.actor_instance import ActorInstance
from driver_client.shell.call_queue import Call, CallQueue
from driver_client.shell.cancelling import ChildCalls
from driver_client.shell.function_store import FunctionStore, LocalFunction
from driver_client.shell.given_arguments import arguments_of
from driver_client.shell.io_thread import IoThread
from driver_client.shell.leaving import ActorExit
from driver_client.shell.outcome import (
    Outcome,
    cancelled_outcome,
    error_outcome,
    exit_outcome,
    exit_status,
    last_outcome,
    outcome_of,
)
from driver_client.shell.ownership import Ownership
from driver_client.shell.peer_stream import PeerStream
from driver_client.shell.streaming import ItemSender, end_outcome, run_generator
from driver_client.shell.task_events import TaskEvents

CreationAnswer = Callable[[pb.ActorCreated], None]


class Executor:
    """CallTarget of a worker. `accept` and its like run on the I/O thread, `run` on main."""

    def __init__(
        self,
        io: IoThread,
        ownership: Ownership,
        functions: FunctionStore,
        events: TaskEvents,
        *,
        exit_process: Callable[[str], None],
        actor_named: Callable[[pb.CreateActor], None],
        children: ChildCalls,
        kill_process: Callable[[], None],
        end_with: Callable[[int], None],
    ) -> None:
        self.node_id = ""
        self.actor: ActorInstance | None = None
        self.exiting = False
        self._io = io
        self._ownership = ownership
        self._functions = functions
        self.events = events
        self._exit_process = exit_process
        self._actor_named = actor_named
        self._children = children
        self._kill_process = kill_process
        self._end_with = end_with
        self.interrupt: tuple[PeerStream, int] | None = None
        self._running: tuple[PeerStream, int] | None = None
        self._calls_made: dict[bytes, int] = {}
        """Calls of functions with `max_calls`, by the hash of their body."""
        self._lease_id = b""
        self._early: list[tuple[PeerStream, Callable[[], None]]] = []
        """What came before the word of the agent that the lease began."""
        self._queue = CallQueue()
        self._check: asyncio.TimerHandle | None = None

    # ---- CallTarget, I/O thread

    def accept(self, stream: PeerStream, calls: pb.CallBatch) -> None:
        """Queues a batch; what an ending worker gets goes back unstarted."""
        if self.exiting:
            stream.extras().returned_task_seqs.extend(calls.task_seq)
            return
        if stream.lease_id and stream.lease_id != self._lease_id:
            self._early.append((stream, lambda: self.accept(stream, calls)))
            return
        stream.answered = self.events.flush_later
        functions = stream.functions
        details: dict[int, Any] = {d.position: d for d in calls.details} if calls.details else {}
        get = details.get
        batch: list[Call] = [
            (stream, sequence, functions[function], payload, get(position))
            for position, (sequence, function, payload) in enumerate(
                zip(calls.task_seq, calls.function, calls.payload, strict=True)
            )
        ]
        actor = self.actor
        if actor is not None and actor.concurrent is not None:
            actor.concurrent.submit(batch)
            return
        self._queue.extend(batch)
        if actor is None and self._check is None and len(self._queue):
            self._look_later()

    def create_actor(self, stream: PeerStream, message: pb.CreateActor) -> None:
        """Queues a constructor for an owner that is connected by `stream`."""
        if stream.lease_id and stream.lease_id != self._lease_id:
            self._early.append((stream, lambda: self.create_actor(stream, message)))
            return

        def answer(created: pb.ActorCreated) -> None:
            self._io.post(lambda: stream.extras().actor_created.CopyFrom(created))

        self.create_actor_for(message, answer)

    def lease_began(self, lease_id: bytes) -> None:
        """The agent says for whom this worker works: what its owner sent already can begin.

        The owner's first call may overtake the agent's word, which names devices and groups.
        """
        self._lease_id = lease_id
        early, self._early = self._early, []
        for stream, begin in early:
            if not stream.closed:
                begin()

    def create_actor_for(self, message: pb.CreateActor, answer: CreationAnswer) -> None:
        """Queues a constructor; `answer` is called on the main thread.

        Raises:
            ValueError: this worker is another actor's already.
        """
        if self.actor is not None and self.actor.message.actor_id != message.actor_id:
            raise ValueError(f"this worker is actor {self.actor.message.actor_id.hex()} already")
        self._actor_named(message)
        self._functions.add(message.class_definition)
        running.actor_group = (message.placement_group_id, message.capture_child_tasks)
        self.actor = ActorInstance(message, self._functions, self)
        actor = self.actor
        self._queue.extend([lambda: actor.construct(answer)])

    def cancel(self, stream: PeerStream, frame: pb.PeerFrame) -> None:
        """Drops calls that did not start."""
        wanted = {ids.sequence_of(task_id) for task_id in frame.cancel_task_ids}
        kept: list[Call] = []
        for call in self._queue.take_back():
            if call[0] is stream and call[1] in wanted:
                stream.push((call[1], b"", pb.RESULT_KIND_CANCELLED, None, 0))
            else:
                kept.append(call)
        self._queue.extend(kept)
        for sequence in sorted(wanted):
            self._cancel_running(stream, sequence, frame)

    def _cancel_running(self, stream: PeerStream, sequence: int, frame: pb.PeerFrame) -> None:
        task = stream.sender_id + sequence.to_bytes(8, "big")
        actor = self.actor
        if actor is not None:
            if actor.concurrent is not None:
                actor.concurrent.cancel(stream, sequence)
            elif self._running == (stream, sequence):
                running.cancelled.add(task)
        elif self._running == (stream, sequence):
            running.cancelled.add(task)
            if frame.cancel_force:
                self._kill_process()
            self.interrupt = (stream, sequence)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if frame.cancel_recursive:
            self._cancel_children(task, force=frame.cancel_force)

    def _interrupted(self, _number: int, _frame: object) -> None:
        """SIGINT reaches user code only while the call it was meant for runs."""
        if self.interrupt is not None and self.interrupt == self._running:
            self.interrupt = None
            raise KeyboardInterrupt("the task was cancelled")

    def stream_closed(self, stream: PeerStream) -> None:
        """Drops what a caller queued that is gone; an actor's callers' calls still run."""
        if self.actor is None:
            self._queue.drop(stream)

    # ---- taking back what waits behind a long task, I/O thread

    def _look_later(self) -> None:
        delay_s = limits.TAKE_BACK_AFTER_MS / 1000
        self._check = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _look(self) -> None:
        self._check = None
        if not len(self._queue) or self.actor is not None:
            return
        if self._queue.running_ms() >= limits.TAKE_BACK_AFTER_MS:
            for stream, sequence, *_ in self._queue.take_back():
                if not stream.closed:
                    stream.extras().returned_task_seqs.append(sequence)
        else:
            self._look_later()

    # ---- main thread

    def take_interrupts(self) -> None:
        """Lets `cancel` interrupt what runs; once, before `run`."""
        signal.signal(signal.SIGINT, self._interrupted)

    def run(self) -> None:
        """Executes until `stop`."""
        queue = self._queue
        while True:
            item = queue.take()
            if item is None:
                return
            if callable(item):
                item()
                continue
            if self.exiting:
                self._io.post(self._give_back, item)
                continue
            queue.started_ns = time.monotonic_ns()
            self._running = (item[0], item[1])
            try:
                self.execute(item)
            except KeyboardInterrupt:  # it came after the call's own handlers: the call is over
                self._running = None
            self._running = None
            queue.started_ns = 0

    @staticmethod
    def _give_back(call: Call) -> None:
        if not call[0].closed:
            call[0].extras().returned_task_seqs.append(call[1])

    def stop(self) -> None:
        """Ends `run` after what is queued. I/O thread."""
        self.exiting = True
        self._queue.extend([None])

    def run_on_main(self, work: Callable[[], None]) -> None:
        """Queues work of the worker itself. I/O thread."""
        self._queue.extend([work])

    def execute(self, call: Call) -> None:
        """Runs one call and answers it. Any execution thread."""
        stream, sequence, function, payload, detail = call
        started = time.perf_counter_ns()
        call_now = running.call_of(stream, sequence, function)
        token = running.current.set(call_now)
        try:
            target = self.target_of(function)
            args, kwargs = arguments_of(payload, detail)
            value = target(*args, **kwargs)
            if function.streaming:
                sender = ItemSender(self, stream, sequence, function)
                run_generator(sender, value, function.call_name)
                outcome = end_outcome()
            else:
                outcome = outcome_of(value, function)
            if running.cancelled or leaving.asked:
                leaving.obey(call_now, is_sync_method=bool(function.method_name))
        except (ActorExit, SystemExit) as wanted:
            self.end(stream, sequence, function, wanted, started)
            return
        except KeyboardInterrupt:
            self._running = None
            outcome = cancelled_outcome()
        except BaseException as error:  # noqa: BLE001 - user code may raise anything; it is the result
            outcome = error_outcome(error, function.call_name, self.node_id, self.actor)
        finally:
            running.current.reset(token)
            self._forget_children(stream.sender_id + sequence.to_bytes(8, "big"))
            if function.streaming:
                self.generator_over(stream, sequence)
        is_last = bool(function.max_calls) and self._is_last(function)
        if is_last:
            outcome = last_outcome(outcome)
        self.answer(stream, sequence, function, outcome, started)
        if is_last:
            self.leave(f"{function.call_name} made its max_calls={function.max_calls} calls")

    def _is_last(self, function: LocalFunction) -> bool:
        made = self._calls_made.get(function.body_hash, 0) + 1
        self._calls_made[function.body_hash] = made
        return made >= function.max_calls and not self.exiting

    def target_of(self, function: LocalFunction) -> Callable[..., Any]:
        """The callable behind a function or method name."""
        if function.method_name:
            assert self.actor is not None, "methods are called on actors only"
            if not function.full_name:
                function.full_name = f"{self.actor.full_name}.{function.method_name}"
            return self.actor.method(function.method_name)
        resolved = function.resolved
        if resolved is None:
            loaded: Callable[..., Any] = self._functions.load(function.body_hash)
            function.resolved = resolved = loaded
            function.full_name = f"{loaded.__module__}.{loaded.__qualname__}"
        return resolved

    def _cancel_children(self, task: bytes, *, force: bool) -> None:
        self._children.cancel_children(task, force=force)

    def _forget_children(self, task: bytes) -> None:
        self._children.children.take(task)
        if running.cancelled:
            running.cancelled.discard(task)

    async def end_coroutines(self) -> None:
        """Cancels what an async actor still runs, before its process ends. I/O thread."""
        actor = self.actor
        if actor is not None and actor.concurrent is not None:
            await actor.concurrent.close()

    def answer(
        self,
        stream: PeerStream,
        sequence: int,
        function: LocalFunction,
        outcome: Outcome,
        started_ns: int,
    ) -> None:
        """Sends a result; one with references waits until their owners know about us."""
        data, kind, detail, refs = outcome
        busy_us = (time.perf_counter_ns() - started_ns) // 1000
        if function.event_kind >= 0:  # in line: `add` would cost as much as the row itself
            events = self.events
            if len(events.rows) < events.capacity:
                what = function.event_kind + kind
                name = function.call_name
                events.rows.append((stream.sender_id, sequence, name, started_ns, busy_us, what))
            else:
                events.lost += 1
        result = (sequence, data, kind, detail, busy_us)
        if not refs and not self._ownership.has_unacknowledged and not function.streaming:
            stream.push(result)
            return
        self._io.post(self._answer_later, stream, result, refs)

    def _answer_later(self, stream: PeerStream, result: Any, refs: list[Any]) -> None:
        if refs:
            stream.held[stream.sender_id + result[0].to_bytes(8, "big")] = refs
        pending = list(self._ownership.unacknowledged())
        self._ownership.after_acknowledged(pending, lambda: stream.push(result))

    def send_item(self, stream: PeerStream, result: Any, refs: list[Any]) -> None:
        """Sends one item of a generator; in order with its end."""
        self._io.post(self._send_item, stream, result, refs)

    def _send_item(self, stream: PeerStream, result: Any, refs: list[Any]) -> None:
        if refs:
            task = stream.sender_id + result[0].to_bytes(8, "big")
            stream.held.setdefault(task, []).extend(refs)
        stream.push(result)

    @staticmethod
    def generator_over(stream: PeerStream, sequence: int) -> None:
        """Forgets what its consumer said."""
        stream.consumer_gates.pop(sequence, None)
        stream.consumed.pop(sequence, None)

    def end(
        self,
        stream: PeerStream,
        sequence: int,
        function: LocalFunction,
        wanted: ActorExit | SystemExit,
        started_ns: int,
    ) -> None:
        """User code ends this process: an actor in order; else as a crash, its call unanswered."""
        status = 0 if isinstance(wanted, ActorExit) else exit_status(wanted)
        actor = self.actor
        if actor is None or status:
            self.exiting = True
            self._end_with(status)
            return
        reason = str(wanted) if isinstance(wanted, ActorExit) else "sys.exit() was called"
        outcome = exit_outcome(actor.message, reason, self.node_id)
        self.answer(stream, sequence, function, outcome, started_ns)
        self.leave(reason)

    def leave(self, reason: str) -> None:
        """The actor wants to end: no new calls, answers out, then the process goes."""
        self.exiting = True
        self._exit_process(reason)
