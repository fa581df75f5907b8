"""What asynchronous calls of a pool give: `multiprocessing.pool.AsyncResult` and its iterators."""

from __future__ import annotations

import multiprocessing
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Self

from shoal.util.multiprocessing.pool_actor import Outcome


class AsyncResult:
    """Filled by the pool's result thread, chunk by chunk."""

    def __init__(
        self,
        chunks: int,
        *,
        single: bool,
        callback: Callable[[Any], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> None:
        self._parts: list[list[Outcome]] = [[] for _ in range(chunks)]
        self._left = chunks
        self._single = single
        self._callback = callback
        self._error_callback = error_callback
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        if not chunks:
            self._finish()

    def chunk_over(self, index: int, outcomes: list[Outcome]) -> None:
        """One chunk is over; the pool's result thread."""
        self._parts[index] = outcomes
        self._left -= 1
        if not self._left:
            self._finish()

    def _finish(self) -> None:
        flat = [outcome for part in self._parts for outcome in part]
        errors = [value for is_good, value in flat if not is_good]
        self._error = errors[0] if errors else None
        if self._error is None:
            values = [value for _, value in flat]
            self._value = values[0] if self._single else values
        self._done.set()
        if self._error is not None:
            if self._error_callback is not None:
                self._error_callback(self._error)
        elif self._callback is not None:
            self._callback(self._value)

    def wait(self, timeout: float | None = None) -> None:
        """Waits until it is over, at most `timeout` seconds."""
        self._done.wait(timeout)

    def get(self, timeout: float | None = None) -> Any:
        """The value, or values.

        Raises:
            multiprocessing.TimeoutError: not over within `timeout` seconds.
            Exception: the first error among the calls.
        """
        if not self._done.wait(timeout):
            raise multiprocessing.TimeoutError(f"not over within {timeout} s")
        if self._error is not None:
            raise self._error
        return self._value

    def ready(self) -> bool:
        """Whether it is over."""
        return self._done.is_set()

    def successful(self) -> bool:
        """Whether it is over without an error.

        Raises:
            ValueError: it is not over.
        """
        if not self.ready():
            raise ValueError(f"{self!r} is not ready")
        return self._error is None


class ResultIterator(Iterator[Any]):
    """`imap`: results in order, or as they are ready. Feeds the pool as results are taken.

    An endless source of arguments is fine: only a few chunks are ahead of who iterates.
    """

    def __init__(self, feed: Callable[[ResultIterator, int], bool], *, ordered: bool) -> None:
        self._feed = feed
        """Submits chunk number n; False: there are no more arguments."""
        self._ordered = ordered
        self._changed = threading.Condition()
        self._parts: dict[int, list[Outcome]] = {}
        self._items: deque[Outcome] = deque()
        self._submitted = 0
        self._taken = 0
        self._exhausted = False

    def start(self, chunks: int) -> Self:
        """Submits the first chunks."""
        for _ in range(chunks):
            self._submit()
        return self

    def _submit(self) -> None:
        if not self._exhausted:
            number = self._submitted
            self._submitted += 1
            if not self._feed(self, number):
                self._submitted -= 1
                self._exhausted = True

    def chunk_over(self, index: int, outcomes: list[Outcome]) -> None:
        """One chunk is over; the pool's result thread."""
        with self._changed:
            self._parts[index] = outcomes
            self._changed.notify_all()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """The next result.

        Raises:
            StopIteration: there is none.
            multiprocessing.TimeoutError: not there within `timeout` seconds.
            Exception: the error of this call; later ones can still be taken.
        """
        while not self._items:
            if self._exhausted and self._taken == self._submitted:
                raise StopIteration
            self._take_chunk(timeout)
        is_good, value = self._items.popleft()
        if is_good:
            return value
        raise value

    def _take_chunk(self, timeout: float | None) -> None:
        with self._changed:
            if not self._changed.wait_for(self._is_there, timeout):
                raise multiprocessing.TimeoutError(f"no result within {timeout} s")
            index = self._taken if self._ordered else next(iter(self._parts))
            self._items.extend(self._parts.pop(index))
            self._taken += 1
        self._submit()

    def _is_there(self) -> bool:
        return self._taken in self._parts if self._ordered else bool(self._parts)
