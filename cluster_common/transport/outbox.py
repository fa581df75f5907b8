"""Opportunistic batching: one write in flight, everything queued meanwhile goes as one frame.

No timer: a lone item leaves at once, load makes frames larger by itself. A keyed item replaces an
unsent one with the same key (newest snapshot wins) and keeps its place in the order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from cluster_common import limits

Item = TypeVar("Item")


class OutboxOverflowError(RuntimeError):
    """The peer reads too slowly: more than `OUTBOX_ITEMS_MAX` items wait for it."""


class Pace(Protocol):
    """Who may write now, where many streams share a loop."""

    async def enter(self, stream: object) -> None:
        """Returns when `stream` may write."""
        ...

    def leave(self, stream: object) -> None:
        """Its write ended, or it gave up."""
        ...


class Outbox(Generic[Item]):
    """Unsent items of one stream. Call everything from the loop's thread.

    Args:
        write: sends one frame built from a list of items; awaited until gRPC took it.
        size_of: bytes of an item, for the frame's cap; None counts items only.
        newest_last: a replacement goes to the end: for streams that are resumed by a revision,
            which must never fall.
        pace: asked before each write, where many streams share a loop.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Awaitable[None]],
        *,
        size_of: Callable[[Item], int] | None = None,
        items_max: int = limits.FRAME_ITEMS_MAX,
        bytes_max: int = limits.FRAME_BYTES_MAX,
        newest_last: bool = False,
        pace: Pace | None = None,
    ) -> None:
        self._write = write
        self._size_of = size_of
        self._items_max = items_max
        self._bytes_max = bytes_max
        self._newest_last = newest_last
        self._pace = pace
        self._items: dict[Hashable, Item] = {}
        self._anonymous = 0
        # Futures, made when somebody waits: an Event each would be a kilobyte of every idle stream.
        self._wake: asyncio.Future[None] | None = None
        self._is_idle = True
        self._drainers: list[asyncio.Future[None]] = []
        self.frames_sent = 0
        self.items_sent = 0
        self.replaced = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item, key: Hashable = None) -> None:
        """Queues an item; with a key it replaces the unsent one of the same key.

        Raises:
            OutboxOverflowError: too many unsent items.
        """
        if key is None:
            self._anonymous += 1
            key = self._anonymous
        elif key in self._items:
            self.replaced += 1
            if self._newest_last:
                del self._items[key]
        if len(self._items) >= limits.OUTBOX_ITEMS_MAX:
            raise OutboxOverflowError(f"{len(self._items)} unsent items")
        self._items[key] = item
        self._is_idle = False
        wake = self._wake
        if wake is not None:
            self._wake = None
            if not wake.done():
                wake.set_result(None)

    async def run(self) -> None:
        """Sends until cancelled or `write` raises."""
        while True:
            if not self._items:
                self._tell_idle()
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
            if self._pace is None:
                await self._write_some()
                continue
            try:
                await self._pace.enter(self)
                await self._write_some()
            finally:
                self._pace.leave(self)

    async def _write_some(self) -> None:
        batch = self._take()
        await self._write(batch)
        self.frames_sent += 1
        self.items_sent += len(batch)

    async def drained(self) -> None:
        """Waits until everything put so far was written."""
        if not self._is_idle:
            drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drainers.append(drained)
            await drained

    def _tell_idle(self) -> None:
        self._is_idle = True
        drainers, self._drainers = self._drainers, []
        for drained in drainers:
            if not drained.done():
                drained.set_result(None)

    def _take(self) -> list[Item]:
        alone = len(self._items) == 1
        if alone or (self._size_of is None and len(self._items) <= self._items_max):
            batch = list(self._items.values())
            self._items.clear()
            return batch
        batch: list[Item] = []
        taken: list[Hashable] = []
        size = 0
        for key, item in self._items.items():
            size += self._size_of(item) if self._size_of is not None else 0
            if batch and (len(batch) >= self._items_max or size > self._bytes_max):
                break
            batch.append(item)
            taken.append(key)
        for key in taken:
            del self._items[key]
        return batch
