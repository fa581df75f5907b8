"""The one actor of a worker: its instance and how its calls run."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

import uvloop

from cluster_api.v1 import core_worker_pb2 as pb
from driver_client.objects import serialization
from driver_client.shell import running
from driver_client.shell.call_queue import Call
from driver_client.shell.function_store import FunctionStore, extend_module_path
from driver_client.shell.outcome import Outcome, error_outcome, outcome_of
from driver_client.shell.peer_stream import PeerStream
from driver_client.shell.streaming import ItemSender, end_outcome, run_async_generator

if TYPE_CHECKING:
    from driver_client.shell.executor import CreationAnswer, Executor


class ActorExit(BaseException):
    """Raised by `exit_actor` and `__ray_terminate__`."""


class Concurrent(Protocol):
    """Runs calls beside each other."""

    def cancel(self, stream: PeerStream, sequence: int) -> None:
        """Cancels a coroutine, or a call that did not start; I/O thread."""
        ...

    def submit(self, batch: list[Call]) -> None:
        """Takes calls; I/O thread."""
        ...


class ActorInstance:
    """Constructed on the main thread; methods are looked up once."""

    def __init__(
        self, message: pb.CreateActor, functions: FunctionStore, executor: Executor
    ) -> None:
        self.message = message
        self.instance: Any = None
        self.concurrent: Concurrent | None = None
        self._functions = functions
        self._executor = executor
        self._methods: dict[str, Callable[..., Any]] = {}
        self._failed: BaseException | None = None
        if message.is_async:
            self.concurrent = AsyncCalls(executor, message.max_concurrency or 1000)
        elif message.max_concurrency > 1:
            self.concurrent = ThreadedCalls(executor, message.max_concurrency)

    def construct(self, answer: CreationAnswer) -> None:
        """Runs the constructor. Main thread."""
        message = self.message
        extend_module_path(message.sys_path)
        created = pb.ActorCreated(actor_id=message.actor_id, incarnation=message.incarnation)
        name = f"{message.class_definition.name}.__init__"
        context = running.Running(
            message.actor_id, name, name, message.placement_group_id, message.capture_child_tasks
        )
        token = running.current.set(context)
        try:
            class_ = self._functions.load(message.class_definition.hash)
            args, kwargs = self._executor.arguments_of(message.payload, message)
            self.instance = class_(*args, **kwargs)
            created.ok = True
            created.repr_name = type(self.instance).__name__
        except BaseException as error:  # noqa: BLE001 - user code may raise anything; it is the answer
            self._failed = error
            self._executor.exiting = True
            created.error = error_outcome(error, name, self._executor.node_id)[0]
        finally:
            running.current.reset(token)
        answer(created)
        if created.ok and isinstance(self.concurrent, AsyncCalls | ThreadedCalls):
            self.concurrent.start()

    def method(self, name: str) -> Callable[..., Any]:
        """A bound method.

        Raises:
            AttributeError: the class has no such method.
        """
        method = self._methods.get(name)
        if method is None:
            method = self._methods[name] = self._look_up(name)
        return method

    def _look_up(self, name: str) -> Callable[..., Any]:
        if self._failed is not None:
            raise self._failed
        if name == "__ray_ready__":
            return lambda: True
        if name == "__ray_terminate__":
            return _terminate
        if name == "__ray_call__":
            return self._call_with_instance
        return getattr(self.instance, name)

    def _call_with_instance(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(self.instance, *args, **kwargs)


def _terminate() -> None:
    raise ActorExit("terminated by its handle")


class ThreadedCalls:
    """`max_concurrency` threads that take calls in order."""

    def __init__(self, executor: Executor, threads: int) -> None:
        self._executor = executor
        self._count = threads
        self._queue: SimpleQueue[Call] = SimpleQueue()

    def submit(self, batch: list[Call]) -> None:
        """Queues calls."""
        for call in batch:
            self._queue.put(call)

    def cancel(self, stream: PeerStream, sequence: int) -> None:
        """Threads cannot be interrupted: what runs goes on."""

    def start(self) -> None:
        """Starts the threads, once the instance exists."""
        for number in range(self._count):
            threading.Thread(target=self._run, name=f"actor-{number}", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._executor.execute(self._queue.get())


class AsyncCalls:
    """Coroutines on an event loop of their own thread, at most `limit` at once."""

    def __init__(self, executor: Executor, limit: int) -> None:
        self._executor = executor
        self._limit = limit
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._waiting: list[Call] = []
        self._active = 0
        self._started = False
        self._running: dict[tuple[PeerStream, int], asyncio.Task[None]] = {}

    def submit(self, batch: list[Call]) -> None:
        """Hands a whole batch to the loop with one wake-up."""
        self._loop.call_soon_threadsafe(self._take, batch)

    def cancel(self, stream: PeerStream, sequence: int) -> None:
        """Cancels the coroutine of a call, or drops it if it waits for its turn."""
        self._loop.call_soon_threadsafe(self._cancel, stream, sequence)

    def _cancel(self, stream: PeerStream, sequence: int) -> None:
        task = self._running.get((stream, sequence))
        if task is not None:
            task.cancel()
            return
        for call in self._waiting:
            if call[0] is stream and call[1] == sequence:
                self._waiting.remove(call)
                stream.push((sequence, b"", pb.RESULT_KIND_CANCELLED, None, 0))
                return

    def start(self) -> None:
        """Starts the loop's thread, once the instance exists."""
        threading.Thread(target=self._run, name="actor-loop", daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _take(self, batch: list[Call]) -> None:
        self._waiting += batch
        self._fill()

    def _fill(self) -> None:
        room = self._limit - self._active
        if room <= 0 or not self._waiting:
            return
        now, self._waiting = self._waiting[:room], self._waiting[room:]
        for call in now:
            self._active += 1
            task = self._loop.create_task(self._call(call))
            key = (call[0], call[1])
            self._running[key] = task
            task.add_done_callback(lambda _task, key=key: self._over(key))

    def _over(self, key: tuple[PeerStream, int]) -> None:
        self._running.pop(key, None)
        self._active -= 1
        if self._waiting:
            self._fill()

    async def _call(self, call: Call) -> None:
        executor = self._executor
        stream, sequence, function, payload, detail = call
        started = time.perf_counter_ns()
        running.current.set(executor.context_of(stream, sequence, function))
        try:
            args, kwargs = executor.arguments_of(payload, detail)
            value = executor.target_of(function)(*args, **kwargs)
            if function.streaming:
                sender = ItemSender(executor, stream, sequence, function)
                await run_async_generator(sender, value, function.call_name)
                outcome = end_outcome()
            else:
                if inspect.isawaitable(value):
                    value = await value
                outcome = outcome_of(value, function)
        except ActorExit as wanted:
            executor.answer(stream, sequence, executor.exit_outcome(), started)
            executor.leave(str(wanted))
            return
        except asyncio.CancelledError:
            outcome: Outcome = (b"", pb.RESULT_KIND_CANCELLED, None, [])
        except BaseException as error:  # noqa: BLE001 - user code may raise anything; it is the result
            outcome = error_outcome(error, function.call_name, executor.node_id)
        executor.answer(stream, sequence, outcome, started, after_items=function.streaming)


NONE = serialization.NONE
