"""`multiprocessing.Pool` whose processes are actors anywhere in the cluster."""

from __future__ import annotations

import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol, Self

import shoal
from shoal._init import ADDRESS_VARIABLE
from shoal.util.multiprocessing.pool_actor import Item, Outcome, PoolActor
from shoal.util.multiprocessing.result import AsyncResult, ResultIterator

_CHUNKS_AHEAD = 2
"""Chunks sent to a process before the first is answered: the next is there when one is over."""

_CHUNKS_PER_PROCESS = 4
"""`map` without a chunk size makes so many chunks a process, as the standard library does."""


class _Taker(Protocol):
    def chunk_over(self, index: int, outcomes: list[Outcome]) -> None: ...


class _Chunk:
    __slots__ = ("function", "index", "items", "taker")

    def __init__(
        self, function: Callable[..., Any], items: list[Item], taker: _Taker, index: int
    ) -> None:
        self.function = function
        self.items = items
        self.taker = taker
        self.index = index


class _Member:
    """One actor of the pool and what it has to do."""

    __slots__ = ("actor", "chunks_left", "in_flight")

    def __init__(self, actor: Any, chunks_left: int) -> None:
        self.actor = actor
        self.chunks_left = chunks_left
        self.in_flight = 0


class Pool:
    """The API of `multiprocessing.Pool`; use it as a context manager, or `close` and `join`.

    Args:
        processes: actors of the pool; None: the cluster's CPUs. A cluster that this call starts
            has as many CPUs.
        initializer, initargs: called in every process first; over when the pool is made.
        maxtasksperchild: chunks after which a process is replaced by a new one.
        context: accepted for programs of the standard library, without effect.
        ray_address: cluster to connect to, if this process is not connected.
        ray_remote_args: options of the actors, such as `num_cpus` (1 unless given).

    Raises:
        ValueError: the cluster has not the CPUs for so many processes.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
    ) -> None:
        del context
        if processes is not None and processes < 1:
            raise ValueError(f"processes must be 1 or more, not {processes}")
        if maxtasksperchild is not None and maxtasksperchild < 1:
            raise ValueError(f"maxtasksperchild must be 1 or more, not {maxtasksperchild}")
        _connect(ray_address, processes)
        options = {"num_cpus": 1, **(ray_remote_args or {})}
        processes = _checked_size(processes, options["num_cpus"] or 0)
        self._actor_class: Any = shoal.remote(PoolActor).options(**options)
        self._start_args = (initializer, tuple(initargs))
        self._chunks_per_child = maxtasksperchild or 0
        self._lock = threading.Lock()
        self._waiting: deque[_Chunk] = deque()
        self._open_chunks = 0
        self._closed = False
        self._over = threading.Condition(self._lock)
        self._answers: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._members = [self._new_member() for _ in range(processes)]
        shoal.get([member.actor.__ray_ready__.remote() for member in self._members])
        self._is_terminated = False
        # The thread holds the queue only: a pool that nobody refers to ends with its processes.
        self._thread = threading.Thread(
            target=_take_answers, args=(self._answers,), name="pool", daemon=True
        )
        self._thread.start()

    # ---- calls

    def apply(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """`func(*args, **kwargs)` in one of the processes."""
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Callable[[Any], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> AsyncResult:
        """The same without waiting; callbacks run on the pool's thread."""
        result = AsyncResult(1, single=True, callback=callback, error_callback=error_callback)
        self._submit(_Chunk(func, [(tuple(args or ()), dict(kwargs or {}))], result, 0))
        return result

    def map(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = None
    ) -> list[Any]:
        """`[func(x) for x in iterable]`."""
        return self.map_async(func, iterable, chunksize).get()

    def map_async(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callable[[list[Any]], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> AsyncResult:
        """The same without waiting."""
        items: list[Item] = [((value,), {}) for value in iterable]
        return self._start(func, items, chunksize, callback, error_callback)

    def starmap(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
    ) -> list[Any]:
        """`[func(*x) for x in iterable]`."""
        return self.starmap_async(func, iterable, chunksize).get()

    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callable[[list[Any]], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> AsyncResult:
        """The same without waiting."""
        items: list[Item] = [(tuple(values), {}) for values in iterable]
        return self._start(func, items, chunksize, callback, error_callback)

    def imap(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = 1
    ) -> ResultIterator:
        """Results in order; arguments are read as results are taken."""
        return self._iterate(func, iterable, chunksize, ordered=True)

    def imap_unordered(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = 1
    ) -> ResultIterator:
        """Results as they are ready."""
        return self._iterate(func, iterable, chunksize, ordered=False)

    def _start(
        self,
        func: Callable[..., Any],
        items: list[Item],
        chunksize: int | None,
        callback: Callable[[Any], Any] | None,
        error_callback: Callable[[BaseException], Any] | None,
    ) -> AsyncResult:
        self._check_open()
        size = _chunk_size(chunksize) or max(
            1, -(-len(items) // (len(self._members) * _CHUNKS_PER_PROCESS))
        )
        starts = range(0, len(items), size)
        result = AsyncResult(
            len(starts), single=False, callback=callback, error_callback=error_callback
        )
        for index, start in enumerate(starts):
            self._submit(_Chunk(func, items[start : start + size], result, index))
        return result

    def _iterate(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        chunksize: int | None,
        *,
        ordered: bool,
    ) -> ResultIterator:
        self._check_open()
        size = _chunk_size(chunksize) or 1
        values: Iterator[Any] = iter(iterable)

        def feed(taker: ResultIterator, index: int) -> bool:
            items: list[Item] = [((value,), {}) for value in islice(values, size)]
            if not items or self._is_terminated:
                return False
            self._submit(_Chunk(func, items, taker, index), may_be_closed=True)
            return True

        ahead = len(self._members) * _CHUNKS_AHEAD
        return ResultIterator(feed, ordered=ordered).start(ahead)

    # ---- the processes

    def _new_member(self) -> _Member:
        return _Member(self._actor_class.remote(*self._start_args), self._chunks_per_child)

    def _submit(self, chunk: _Chunk, *, may_be_closed: bool = False) -> None:
        with self._lock:
            if not may_be_closed:
                self._check_open()
            self._open_chunks += 1
            self._waiting.append(chunk)
            self._dispatch()

    def _dispatch(self) -> None:
        """Gives waiting chunks to those with the least to do; with the lock held."""
        while self._waiting and self._members:
            member = min(self._members, key=lambda m: m.in_flight)
            if member.in_flight >= _CHUNKS_AHEAD:
                return
            chunk = self._waiting.popleft()
            member.in_flight += 1
            if self._chunks_per_child:
                member.chunks_left -= 1
                if not member.chunks_left:
                    # It answers what it has; its handle goes with its last chunk's answer.
                    self._members[self._members.index(member)] = self._new_member()
            ref = member.actor.run.remote(chunk.function, chunk.items)
            self._follow(ref.future(), member, chunk)

    def _follow(self, future: Future[Any], member: _Member, chunk: _Chunk) -> None:
        """Has the pool's thread take the answer when it is there."""

        def over(done: Future[Any]) -> None:
            self._answers.put(lambda: self._answered(member, chunk, done))

        future.add_done_callback(over)

    def _answered(self, member: _Member, chunk: _Chunk, future: Future[Any]) -> None:
        """One chunk is over; the pool's thread."""
        error = future.exception()
        outcomes = [(False, error)] if error is not None else future.result()
        with self._lock:
            member.in_flight -= 1
            if isinstance(error, shoal.exceptions.RayActorError):
                self._replace(member)
            self._dispatch()
        try:
            chunk.taker.chunk_over(chunk.index, outcomes)
        except Exception:  # noqa: BLE001 - a callback of the user; the pool goes on
            traceback.print_exc()
        with self._lock:
            self._open_chunks -= 1
            self._over.notify_all()

    def _replace(self, member: _Member) -> None:
        """A process that died makes room for a new one; with the lock held."""
        if member in self._members and not self._closed:
            self._members[self._members.index(member)] = self._new_member()

    # ---- the end

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the pool is closed: it takes no more calls")

    def close(self) -> None:
        """No more calls are taken; what was submitted is finished."""
        self._closed = True

    def terminate(self) -> None:
        """Ends the processes at once; calls that were not over fail with ActorDiedError."""
        with self._lock:
            self._closed = self._is_terminated = True
            members, self._members = self._members, []
            dropped = list(self._waiting)
            self._waiting.clear()
        for member in members:
            shoal.kill(member.actor)
        error = shoal.exceptions.ActorDiedError("the pool was terminated")
        for chunk in dropped:
            chunk.taker.chunk_over(chunk.index, [(False, error)])
        with self._lock:
            self._open_chunks -= len(dropped)
            self._over.notify_all()

    def join(self) -> None:
        """Waits for everything submitted and ends the processes.

        Raises:
            ValueError: neither `close` nor `terminate` was called.
        """
        if not self._closed:
            raise ValueError("the pool is still open: call close() or terminate() before join()")
        with self._lock:
            self._over.wait_for(lambda: not self._open_chunks)
            self._members = []
        self._answers.put(None)
        self._thread.join()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.terminate()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("pools cannot be sent to other processes")

    def __del__(self) -> None:
        answers = self.__dict__.get("_answers")
        if answers is not None:
            answers.put(None)


def _connect(address: str | None, processes: int | None) -> None:
    """A cluster that is started only for a pool has room for the whole pool."""
    if shoal.is_initialized():
        return
    wanted = address or os.environ.get(ADDRESS_VARIABLE) or "local"
    shoal.init(address, num_cpus=processes if wanted == "local" else None)


def _checked_size(processes: int | None, cpus_each: float) -> int:
    cpus = shoal.cluster_resources().get("CPU", 0)
    if processes is None:
        return max(1, int(cpus))
    if processes * cpus_each > cpus:
        raise ValueError(
            f"a pool of {processes} processes takes {processes * cpus_each:g} CPUs; the cluster "
            f"has {cpus:g}"
        )
    return processes


def _take_answers(answers: SimpleQueue[Callable[[], None] | None]) -> None:
    while (answer := answers.get()) is not None:
        answer()
        del answer


def _chunk_size(chunksize: int | None) -> int:
    if chunksize is None:
        return 0
    if isinstance(chunksize, bool) or not isinstance(chunksize, int) or chunksize < 1:
        raise ValueError(f"chunksize must be a whole number of 1 or more, not {chunksize!r}")
    return chunksize
