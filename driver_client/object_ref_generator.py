"""What a call with `num_returns="streaming"` or "dynamic" gives: references, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, NoReturn

from driver_client import object_ref
from driver_client.object_ref import ObjectRef
from driver_client.objects.entry import Entry
from driver_client.objects.generator_state import GeneratorState
from driver_client.printed_id import TaskID


class ObjectRefGenerator(Iterator[ObjectRef[Any]], AsyncIterator[ObjectRef[Any]]):
    """Iterates over references to the items, each as soon as it was made.

    When the task fails, the reference after its last item raises the error in `get`.
    """

    def __init__(self, state: GeneratorState, end: ObjectRef[Any]) -> None:
        self._state = state
        self._end = end

    def __iter__(self) -> ObjectRefGenerator:
        return self

    def __next__(self) -> ObjectRef[Any]:
        entry = self._state.take()
        if entry is None:
            raise StopIteration
        return object_ref.another(entry)

    def __aiter__(self) -> ObjectRefGenerator:
        return self

    async def __anext__(self) -> ObjectRef[Any]:
        entry = await asyncio.to_thread(self._state.take)
        if entry is None:
            raise StopAsyncIteration
        return object_ref.another(entry)

    @property
    def _entry(self) -> Entry:
        """What `wait` looks at (`object_ref.entry_of`)."""
        return self._state.upcoming()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an ObjectRefGenerator cannot be pickled, hence neither passed nor returned: "
            "take its ObjectRefs here and pass those"
        )

    def next_ready(self) -> bool:
        """Whether `next` gives a reference without waiting."""
        return self._state.has_next

    def task_id(self) -> TaskID:
        """The task that makes the items."""
        return self._end.task_id()

    def completed(self) -> ObjectRef[Any]:
        """A reference that completes (with None) when the generator is exhausted."""
        return self._end

    def is_finished(self) -> bool:
        """Whether every item was taken and no more will come."""
        return self._state.is_exhausted

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._end.hex()})"


class DynamicObjectRefGenerator:
    """The value of a call with `num_returns="dynamic"`: its references, all made."""

    def __init__(self, refs: list[ObjectRef[Any]]) -> None:
        self._refs = refs

    def __iter__(self) -> Iterator[ObjectRef[Any]]:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)

    def __getitem__(self, index: int) -> ObjectRef[Any]:
        return self._refs[index]
