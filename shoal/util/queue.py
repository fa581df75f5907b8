"""A first-in first-out queue that any task, actor or driver can share (Ray's `ray.util.queue`).

The items live in one async actor; a handle to it travels with the queue object. Calls that wait do
so inside the actor, so nobody polls.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable
from typing import Any

import shoal

__all__ = ["Empty", "Full", "Queue"]

_WAITING_CALLS_MAX = 100_000
"""Calls that may wait inside the actor; one that fills it up would shut out who could free them."""


class Empty(queue.Empty):
    """There is no item (in time)."""


class Full(queue.Full):
    """There is no room (in time)."""


class _Items:
    """The actor behind a queue."""

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._queue: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    async def qsize(self) -> int:
        """Number of items."""
        return self._queue.qsize()

    async def put(self, item: Any, timeout: float | None) -> None:  # noqa: ASYNC109 - it travels as an argument
        """Adds an item; waits for room at most `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._queue.put(item)
        except TimeoutError:
            raise Full(f"no room for an item within {timeout} s") from None

    async def get(self, timeout: float | None) -> Any:  # noqa: ASYNC109 - it travels as an argument
        """Takes an item; waits for one at most `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                return await self._queue.get()
        except TimeoutError:
            raise Empty(f"no item within {timeout} s") from None

    async def put_now(self, items: list[Any]) -> None:
        """Adds all items or none."""
        size = self._queue.qsize()
        if self._maxsize > 0 and size + len(items) > self._maxsize:
            raise Full(
                f"no room for {len(items)} item(s): {size} of at most {self._maxsize} are there"
            )
        for item in items:
            self._queue.put_nowait(item)

    async def get_now(self, count: int) -> list[Any]:
        """Takes `count` items or none."""
        size = self._queue.qsize()
        if count > size:
            raise Empty(f"{count} item(s) were asked for, there are {size}")
        return [self._queue.get_nowait() for _ in range(count)]


class Queue:
    """Ray's distributed queue: the methods of `queue.Queue`, async twins, and batches.

    Attributes:
        maxsize: items at most; 0 or less: no limit.
        actor: handle of the actor that holds the items.
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None) -> None:
        self.maxsize = maxsize
        options = {"max_concurrency": _WAITING_CALLS_MAX, **(actor_options or {})}
        self.actor: Any = shoal.remote(_Items).options(**options).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """Number of items just now."""
        return shoal.get(self.actor.qsize.remote())

    def qsize(self) -> int:
        """Number of items just now."""
        return self.size()

    def empty(self) -> bool:
        """Whether there is no item just now."""
        return self.size() == 0

    def full(self) -> bool:
        """Whether there is no room just now."""
        return self.maxsize > 0 and self.size() >= self.maxsize

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:  # noqa: FBT001, FBT002 - Ray's signature
        """Adds an item.

        Raises:
            Full: no room, at once (`block=False`) or within `timeout` seconds.
            ValueError: negative timeout.
        """
        shoal.get(self._put(item, timeout, block=block))

    async def put_async(
        self,
        item: Any,
        block: bool = True,  # noqa: FBT001, FBT002 - Ray's signature
        timeout: float | None = None,  # noqa: ASYNC109 - same
    ) -> None:
        """`put` for coroutines."""
        await self._put(item, timeout, block=block)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002 - Ray's signature
        """Takes the oldest item.

        Raises:
            Empty: no item, at once (`block=False`) or within `timeout` seconds.
            ValueError: negative timeout.
        """
        if not block:
            return shoal.get(self.actor.get_now.remote(1))[0]
        return shoal.get(self._get(timeout))

    async def get_async(
        self,
        block: bool = True,  # noqa: FBT001, FBT002 - Ray's signature
        timeout: float | None = None,  # noqa: ASYNC109 - same
    ) -> Any:
        """`get` for coroutines."""
        if not block:
            return (await self.actor.get_now.remote(1))[0]
        return await self._get(timeout)

    def put_nowait(self, item: Any) -> None:
        """`put(item, block=False)`."""
        self.put(item, block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Adds all items in their order, or none.

        Raises:
            Full: they do not all fit.
            TypeError: not iterable.
        """
        if not isinstance(items, Iterable):
            raise TypeError(f"put_nowait_batch takes an iterable of items, not {items!r}")
        shoal.get(self.actor.put_now.remote(list(items)))

    def get_nowait(self) -> Any:
        """`get(block=False)`."""
        return self.get(block=False)

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Takes exactly so many items.

        Raises:
            Empty: there are fewer; none is taken then.
            TypeError, ValueError: not a whole number of 0 or more.
        """
        if isinstance(num_items, bool) or not isinstance(num_items, int):
            raise TypeError(f"num_items must be a whole number, not {num_items!r}")
        if num_items < 0:
            raise ValueError(f"num_items must be 0 or more, not {num_items}")
        return shoal.get(self.actor.get_now.remote(num_items))

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:  # noqa: FBT001, FBT002 - Ray's signature
        """Ends the actor: at once with `force`, else after what was called is answered.

        Calls that still wait after `grace_period_s` seconds fail with ActorDiedError.
        """
        if self.actor is None:
            return
        actor, self.actor = self.actor, None
        if not force:
            shoal.wait([actor.__ray_terminate__.remote()], timeout=grace_period_s)
        shoal.kill(actor, no_restart=True)

    def _put(self, item: Any, timeout: float | None, *, block: bool) -> Any:
        if not block:
            return self.actor.put_now.remote([item])
        return self.actor.put.remote(item, _checked(timeout))

    def _get(self, timeout: float | None) -> Any:
        return self.actor.get.remote(_checked(timeout))


def _checked(timeout: float | None) -> float | None:
    if timeout is not None and timeout < 0:
        raise ValueError(f"timeout must be None or 0 or more seconds, not {timeout}")
    return timeout
