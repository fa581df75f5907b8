"""Spreads calls over a fixed set of actors (Ray's `ray.util.ActorPool`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import shoal

Call = Callable[[Any, Any], Any]
"""(actor, value) -> ObjectRef of the call."""


class ActorPool:
    """Each actor runs one submitted call at a time; the rest waits here, not in the actors."""

    def __init__(self, actors: Iterable[Any]) -> None:
        self._idle: list[Any] = list(actors)
        self._busy: dict[Any, tuple[int, Any]] = {}
        """Reference -> (position among the submissions, actor)."""
        self._unread: dict[int, Any] = {}
        """Position -> reference, for results nobody took yet."""
        self._pending_submits: deque[tuple[Call, Any]] = deque()
        self._next_submission = 0
        self._next_return = 0

    def map(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """Results of `fn(actor, value)` in the order of the values.

        What was submitted before is waited for and dropped first.
        """
        self._submit_all(fn, values)

        def results() -> Iterator[Any]:
            while self.has_next():
                yield self.get_next()

        return results()

    def map_unordered(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """The same, in the order in which they are ready."""
        self._submit_all(fn, values)

        def results() -> Iterator[Any]:
            while self.has_next():
                yield self.get_next_unordered()

        return results()

    def _submit_all(self, fn: Call, values: Iterable[Any]) -> None:
        while self.has_next():
            try:
                self.get_next_unordered()
            except shoal.exceptions.RayError:
                continue  # nobody asked for this result
        for value in values:
            self.submit(fn, value)

    def submit(self, fn: Call, value: Any) -> None:
        """Calls `fn(actor, value)` on an idle actor, or when one is idle."""
        if not self._idle:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle.pop()
        ref = fn(actor, value)
        key = _first(ref)
        self._busy[key] = (self._next_submission, actor)
        self._unread[self._next_submission] = ref
        self._next_submission += 1

    def has_next(self) -> bool:
        """Whether a result is left to take."""
        return bool(self._unread)

    def has_free(self) -> bool:
        """Whether an actor is idle and nothing waits."""
        return bool(self._idle) and not self._pending_submits

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:  # noqa: FBT001, FBT002 - Ray's signature
        """The next result in the order of submission.

        Raises:
            StopIteration: there is none.
            TimeoutError: not ready within `timeout` seconds; with `ignore_if_timedout` that
                result is given up.
            ValueError: it was taken by `get_next_unordered`.
        """
        if not self.has_next():
            raise StopIteration("there are no more results")
        if self._next_return not in self._unread:
            raise ValueError(
                "the next result in order was taken by get_next_unordered: use one of the two"
            )
        ref = self._unread[self._next_return]
        key = _first(ref)
        late = timeout is not None and not shoal.wait([key], timeout=timeout)[0]
        if late and not ignore_if_timedout:
            raise TimeoutError(f"no result within {timeout} s")
        return self._take(key, give_up=late)

    def get_next_unordered(
        self,
        timeout: float | None = None,
        ignore_if_timedout: bool = False,  # noqa: FBT001, FBT002 - Ray's signature
    ) -> Any:
        """Any result that is ready.

        Raises:
            StopIteration: there is none to wait for.
            TimeoutError: none within `timeout` seconds; with `ignore_if_timedout` the oldest
                result is given up.
        """
        if not self.has_next():
            raise StopIteration("there are no more results")
        ready, _ = shoal.wait(list(self._busy), num_returns=1, timeout=timeout)
        if not ready and not ignore_if_timedout:
            raise TimeoutError(f"no result within {timeout} s")
        return self._take(ready[0] if ready else next(iter(self._busy)), give_up=not ready)

    def _take(self, key: Any, *, give_up: bool) -> Any:
        """The result; its actor is idle again before an error of the call is raised."""
        position, actor = self._busy.pop(key)
        ref = self._unread.pop(position)
        self._next_return = max(self._next_return, position + 1)
        self._return_actor(actor)
        if give_up:
            raise TimeoutError("the result was not ready in time and was given up")
        return shoal.get(ref)

    def _return_actor(self, actor: Any) -> None:
        self._idle.append(actor)
        if self._pending_submits:
            self.submit(*self._pending_submits.popleft())

    def pop_idle(self) -> Any:
        """Takes an idle actor out of the pool; None if none is idle."""
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Adds an actor.

        Raises:
            ValueError: it is in the pool already.
        """
        if actor in self._idle or any(actor == busy for _, busy in self._busy.values()):
            raise ValueError(f"{actor} belongs to this pool already")
        self._return_actor(actor)


def _first(ref: Any) -> Any:
    """A method with several returns is over when its first one is."""
    return ref[0] if isinstance(ref, list) else ref  # pyright: ignore[reportUnknownVariableType] - elements of a user's list
