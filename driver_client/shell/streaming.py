"""Runs generators: each item is sent when it is made, and waits when too many are not consumed."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterable, Iterable
from typing import TYPE_CHECKING, Any, cast

from cluster_api.v1 import core_worker_pb2 as pb
from driver_client.object_ref import entry_of
from driver_client.objects import serialization
from driver_client.shell.outcome import Outcome

if TYPE_CHECKING:
    from driver_client.shell.executor import Executor
    from driver_client.shell.function_store import LocalFunction
    from driver_client.shell.peer_stream import PeerStream

_LOOK_AGAIN_S = 1.0


class ItemSender:
    """Sends the items of one generator."""

    def __init__(
        self, executor: Executor, stream: PeerStream, sequence: int, function: LocalFunction
    ) -> None:
        self._executor = executor
        self._stream = stream
        self._sequence = sequence
        self._limit = function.backpressure
        self._made = 0
        self._room = threading.Event()

    @property
    def has_room(self) -> bool:
        """Whether another item may be made now."""
        if not self._limit or self._stream.closed:
            return True
        consumed = self._stream.consumed.get(self._sequence, 0)
        return self._made - consumed < self._limit

    def send(self, value: Any) -> None:
        """Sends one item."""
        data, refs = serialization.dumps_with_references(value)
        detail = pb.ResultDetail(item_index=self._made)
        for ref in refs:
            entry = entry_of(ref)
            detail.contained.add(object_id=entry.object_id, owner_address=entry.owner_address)
        self._made += 1
        self._executor.send_item(
            self._stream, (self._sequence, data, pb.RESULT_KIND_STREAM_ITEM, detail, 0), refs
        )

    def wait_for_room(self) -> None:
        """Blocks until the consumer took enough, or is gone."""
        self._stream.consumer_gates[self._sequence] = self._room
        while not self.has_room:
            self._room.wait(_LOOK_AGAIN_S)
            self._room.clear()


def end_outcome() -> Outcome:
    """The last result of a generator."""
    return serialization.NONE, pb.RESULT_KIND_STREAM_END, None, []


def run_generator(sender: ItemSender, items: Any, name: str) -> None:
    """Sends every item of a plain generator.

    Raises:
        TypeError: the function is not a generator.
    """
    if not isinstance(items, Iterable) or isinstance(items, (str, bytes)):
        raise TypeError(f"{name} streams its returns but gave {type(items).__name__}, no generator")
    iterator = iter(cast("Iterable[Any]", items))
    while True:
        sender.wait_for_room()
        try:
            item = next(iterator)
        except StopIteration:
            return
        sender.send(item)


async def run_async_generator(sender: ItemSender, items: Any, name: str) -> None:
    """Sends every item of an async generator, or of a plain one inside an async actor."""
    if inspect.isawaitable(items):
        items = await items
    if not isinstance(items, AsyncIterable):
        run_generator(sender, items, name)
        return
    iterator = aiter(cast("AsyncIterable[Any]", items))
    while True:
        while not sender.has_room:
            await asyncio.to_thread(sender.wait_for_room)
        try:
            item = await anext(iterator)
        except StopAsyncIteration:
            return
        sender.send(item)
