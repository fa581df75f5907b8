"""Calls of one actor beside each other: threads, coroutines, and concurrency groups of either."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

import uvloop

from cluster_api.v1 import core_worker_pb2 as pb
from driver_client import limits
from driver_client.shell import leaving, running
from driver_client.shell.call_queue import Call
from driver_client.shell.given_arguments import arguments_of
from driver_client.shell.leaving import ActorExit
from driver_client.shell.outcome import Outcome, error_outcome, outcome_of
from driver_client.shell.peer_stream import PeerStream
from driver_client.shell.streaming import ItemSender, end_outcome, run_async_generator

if TYPE_CHECKING:
    from driver_client.shell.executor import Executor


class Concurrent(Protocol):
    """Runs calls beside each other."""

    def submit(self, batch: list[Call]) -> None:
        """Takes calls; I/O thread."""
        ...

    def cancel(self, stream: PeerStream, sequence: int) -> None:
        """Cancels a coroutine, or a call that did not start; I/O thread."""
        ...

    def construct(self, build: Callable[[], Any]) -> Any:
        """Runs the constructor where the calls will run; main thread, before `start`."""
        ...

    def start(self) -> None:
        """Begins, once the instance exists."""
        ...

    async def close(self) -> None:
        """Ends what runs, before the process ends; I/O thread."""
        ...


def concurrent_for(message: pb.CreateActor, executor: Executor) -> Concurrent | None:
    """What an actor's options ask for; None: its calls run one by one on the main thread."""
    groups = {
        name: _lane(message, executor, limit, f"actor-{name}")
        for name, limit in sorted(message.concurrency_groups.items())
    }
    if not groups and not message.is_async and message.max_concurrency <= 1:
        return None
    default = _lane(message, executor, message.max_concurrency, "actor")
    return Lanes(executor, default, groups) if groups else default


def _lane(message: pb.CreateActor, executor: Executor, limit: int, name: str) -> Concurrent:
    if message.is_async:
        return AsyncCalls(executor, limit or limits.ASYNC_CONCURRENCY_DEFAULT, name)
    return ThreadedCalls(executor, max(1, limit), name)


class Lanes:
    """Concurrency groups: each has threads or an event loop of its own; the rest shares one."""

    def __init__(
        self, executor: Executor, default: Concurrent, groups: dict[str, Concurrent]
    ) -> None:
        self._executor = executor
        self._groups = groups
        self._all: list[Concurrent] = [default, *groups.values()]
        self._by_name: dict[str, Concurrent] = {"": default, **groups}

    def submit(self, batch: list[Call]) -> None:
        """Gives each call to its group, in order."""
        parts: dict[str, list[Call]] = {}
        for call in batch:
            parts.setdefault(call[2].concurrency_group, []).append(call)
        for name, calls in parts.items():
            lane = self._by_name.get(name)
            if lane is not None:
                lane.submit(calls)
            else:
                self._refuse(name, calls)

    def _refuse(self, name: str, calls: list[Call]) -> None:
        error = ValueError(
            f"the actor has no concurrency group {name!r}; it has {', '.join(self._groups)}"
        )
        for stream, sequence, function, *_ in calls:
            outcome = error_outcome(error, function.call_name, self._executor.node_id)
            self._executor.answer(stream, sequence, function, outcome, time.perf_counter_ns())

    def cancel(self, stream: PeerStream, sequence: int) -> None:
        """Cancels the call wherever it is."""
        for lane in self._all:
            lane.cancel(stream, sequence)

    def construct(self, build: Callable[[], Any]) -> Any:
        """Where the calls without a group run."""
        return self._all[0].construct(build)

    def start(self) -> None:
        """Starts every group."""
        for lane in self._all:
            lane.start()

    async def close(self) -> None:
        """Ends every group."""
        await asyncio.gather(*(lane.close() for lane in self._all))


class ThreadedCalls:
    """Threads that take calls in order."""

    def __init__(self, executor: Executor, threads: int, name: str) -> None:
        self._executor = executor
        self._count = threads
        self._name = name
        self._calls: deque[Call] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()
        """One for each call that was put into `_calls`, taken out again or not."""
        self._running: dict[tuple[PeerStream, int], None] = {}
        self._idle = threading.Condition()

    def submit(self, batch: list[Call]) -> None:
        """Queues calls."""
        for call in batch:
            self._calls.append(call)
            self._tokens.put(None)

    def cancel(self, stream: PeerStream, sequence: int) -> None:
        """Drops a call that waits; one that runs is told, threads cannot be interrupted."""
        if (stream, sequence) in self._running:
            running.cancelled.add(stream.sender_id + sequence.to_bytes(8, "big"))
            return
        for call in list(self._calls):
            if call[0] is stream and call[1] == sequence:
                try:
                    self._calls.remove(call)
                except ValueError:  # a thread took it just now
                    return
                stream.push((sequence, b"", pb.RESULT_KIND_CANCELLED, None, 0))
                return

    def construct(self, build: Callable[[], Any]) -> Any:
        """Here: threads have nothing that a constructor could prepare."""
        return build()

    def start(self) -> None:
        """Starts the threads."""
        for number in range(self._count):
            name = f"{self._name}-{number}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._tokens.get()
            try:
                call = self._calls.popleft()
            except IndexError:  # it was cancelled
                continue
            key = (call[0], call[1])
            self._running[key] = None
            try:
                self._executor.execute(call)
            finally:
                del self._running[key]
                if not self._running:
                    with self._idle:
                        self._idle.notify_all()

    async def close(self) -> None:
        """Lets what runs finish, for a while."""
        if self._running:
            await asyncio.to_thread(self._wait_idle)

    def _wait_idle(self) -> None:
        with self._idle:
            self._idle.wait_for(lambda: not self._running, limits.EXIT_THREADS_WAIT_S)


class AsyncCalls:
    """Coroutines on an event loop of their own thread, at most `limit` at once."""

    def __init__(self, executor: Executor, limit: int, name: str) -> None:
        self._executor = executor
        self._limit = limit
        self._name = name
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._waiting: deque[Call] = deque()
        self._is_open = False
        """Whether calls may start: the constructor runs on the loop, and before all of them."""
        self._active = 0
        self._has_thread = False
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
            running.cancelled.add(stream.sender_id + sequence.to_bytes(8, "big"))
            task.cancel()
            return
        for call in self._waiting:
            if call[0] is stream and call[1] == sequence:
                self._waiting.remove(call)
                stream.push((sequence, b"", pb.RESULT_KIND_CANCELLED, None, 0))
                return

    def construct(self, build: Callable[[], Any]) -> Any:
        """Inside the loop, which it may use: for tasks, and to keep."""
        self._start_thread()
        built: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def run() -> None:
            try:
                built.set_result(build())
            except BaseException as error:  # noqa: BLE001 - user code may raise anything; it is the answer
                built.set_exception(error)

        self._loop.call_soon_threadsafe(run, context=contextvars.copy_context())
        return built.result()

    def start(self) -> None:
        """Lets calls run."""
        self._start_thread()
        self._loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        self._is_open = True
        self._fill()

    def _start_thread(self) -> None:
        if not self._has_thread:
            self._has_thread = True
            threading.Thread(target=self._run, name=f"{self._name}-loop", daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _take(self, batch: list[Call]) -> None:
        self._waiting += batch
        self._fill()

    def _fill(self) -> None:
        while self._is_open and self._waiting and self._active < self._limit:
            call = self._waiting.popleft()
            self._active += 1
            task = self._loop.create_task(self._call(call), name=leaving.CALL_TASK)
            key = (call[0], call[1])
            self._running[key] = task
            task.add_done_callback(lambda _task, key=key: self._over(key))

    def _over(self, key: tuple[PeerStream, int]) -> None:
        self._running.pop(key, None)
        self._active -= 1
        if running.cancelled:
            running.cancelled.discard(key[0].sender_id + key[1].to_bytes(8, "big"))
        if self._waiting:
            self._fill()

    async def close(self) -> None:
        """Cancels every coroutine and waits until they are over, for a while."""
        if not self._loop.is_running():
            return
        over = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        try:
            await asyncio.wait_for(asyncio.wrap_future(over), limits.EXIT_COROUTINES_WAIT_S)
        except TimeoutError:
            return  # one that swallows its cancellation ends with the process

    async def _end(self) -> None:
        self._waiting.clear()
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _call(self, call: Call) -> None:
        executor = self._executor
        stream, sequence, function, payload, detail = call
        started = time.perf_counter_ns()
        call_now = running.call_of(stream, sequence, function)
        running.current.set(call_now)
        try:
            args, kwargs = arguments_of(payload, detail)
            value = executor.target_of(function)(*args, **kwargs)
            if function.streaming:
                sender = ItemSender(executor, stream, sequence, function)
                await run_async_generator(sender, value, function.call_name)
                outcome = end_outcome()
            else:
                if inspect.isawaitable(value):
                    value = await value
                outcome = outcome_of(value, function)
            if leaving.asked:
                leaving.obey(call_now, is_sync_method=False)
        except (ActorExit, SystemExit) as wanted:
            executor.end(stream, sequence, function, wanted, started)
            return
        except asyncio.CancelledError:
            if executor.exiting:
                return  # the actor ends: its death is the answer
            outcome: Outcome = (b"", pb.RESULT_KIND_CANCELLED, None, [])
        except BaseException as error:  # noqa: BLE001 - user code may raise anything; it is the result
            outcome = error_outcome(error, function.call_name, executor.node_id, executor.actor)
        executor.answer(stream, sequence, function, outcome, started)
