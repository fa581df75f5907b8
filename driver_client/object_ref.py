"""References to objects: what users hold.

Dropping a reference only appends to a queue that the I/O thread sweeps (DESIGN section 11): no
lock, no message, no bookkeeping on the user's thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections import deque
from collections.abc import Callable, Generator
from operator import attrgetter
from typing import Any, Generic, TypeVar

from cluster_common import ids
from driver_client import limits
from driver_client.objects import entry as entries
from driver_client.objects import serialization
from driver_client.objects.entry import Entry
from driver_client.printed_id import JobID, TaskID

T_co = TypeVar("T_co", covariant=True)

changes: deque[Entry | tuple[Entry]] = deque()
"""Counts to apply, in order: an entry was dropped once; a 1-tuple: referenced once more."""

resolve: Callable[[bytes, str], ObjectRef[Any]] | None = None
"""Set by the process's runtime: the reference for (object id, owner address)."""

export: Callable[[Entry], None] | None = None
"""Set by the process's runtime: told when the id of an entry leaves the process."""

fetch: Callable[[Entry], None] | None = None
"""Set by the process's runtime: asks the owner for the value of a borrowed entry."""

wake_io: Callable[[], None] | None = None
"""Set by the process's runtime: asks the I/O thread to sweep."""


_NOBODYS = Entry(0, b"", "")
_NOBODYS.local = 1 << 60


class ObjectRef(Generic[T_co]):
    """A future value.

    Hashable, comparable by object, awaitable, picklable (as a borrowed reference).
    """

    __slots__ = ("__weakref__", "_entry")

    def __init__(self, entry: Entry) -> None:
        if type(entry) is not Entry:
            self._entry = _NOBODYS  # it is dropped like any other
            raise TypeError(
                f"an ObjectRef comes from .remote() or put(), it is not made of {entry!r}"
            )
        self._entry = entry

    def __del__(self) -> None:
        entry = self._entry
        changes.append(entry)
        if wake_io and (
            len(changes) > limits.DROPPED_REFERENCES_MAX
            or len(entry.data) > limits.DROPPED_BYTES_PROMPT
            or entry.actor is not None
            or entry.contained is not None
            or type(entry.key) is bytes
        ):
            wake_io()

    def __hash__(self) -> int:
        return hash(self._entry.key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectRef):
            return NotImplemented
        return self._entry is other._entry or self.binary() == other.binary()

    def __repr__(self) -> str:
        return f"ObjectRef({self.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        serialization.note_reference(self)
        if export is not None:
            export(self._entry)
        return rebuild, (self._entry.object_id, self._entry.owner_address)

    def hex(self) -> str:
        """The object id as text."""
        return self._entry.object_id.hex()

    def binary(self) -> bytes:
        """The object id, 28 bytes."""
        return self._entry.object_id

    @classmethod
    def size(cls) -> int:
        """Length of an object id in bytes."""
        return ids.OBJECT_ID_BYTES

    def is_nil(self) -> bool:
        """False: every reference stands for an object."""
        return False

    def task_id(self) -> TaskID:
        """The task that makes the object (of a `put`: its owner's sequence number)."""
        return TaskID(ids.task_of(self._entry.object_id))

    def job_id(self) -> JobID:
        """The job this process works for, whose calls and values these are."""
        from driver_client import process  # late: it is made of what is made of references

        return JobID(process.get_runtime().facts.job_id)

    def future(self) -> concurrent.futures.Future[T_co]:
        """A thread's future of the value."""
        result: concurrent.futures.Future[Any] = concurrent.futures.Future()
        waiter = _FutureWaiter(result, self)
        if not self._entry.add_waiter(waiter):
            waiter.notify(self._entry)
        elif fetch is not None:
            fetch(self._entry)
        return result

    def _on_completed(self, callback: Callable[[Any], Any]) -> None:
        """Calls `callback` with the value, or with the error; on a thread of the runtime."""
        self.future().add_done_callback(lambda done: callback(done.exception() or done.result()))

    def as_future(self) -> asyncio.Future[T_co]:
        """An asyncio future of the value, for the running loop."""
        return asyncio.wrap_future(self.future())

    def __await__(self) -> Generator[Any, None, T_co]:
        if self._entry.state != entries.PENDING:
            return open_entry(self._entry)
        return (yield from self.as_future().__await__())


AnyRef: type[ObjectRef[Any]] = ObjectRef
"""The class, for `isinstance` and `type() is` checks of values of users."""

entry_of: Callable[[ObjectRef[Any]], Entry] = attrgetter("_entry")
"""The state behind a reference: for the runtime, not for users (C speed on the hot paths)."""


class _FutureWaiter:
    """Completes a thread's future; unpickles on the thread that completes the entry.

    It holds the reference: a borrowed object that nobody refers to is not sent any more.
    """

    def __init__(self, future: concurrent.futures.Future[Any], ref: ObjectRef[Any]) -> None:
        self._future: concurrent.futures.Future[Any] | None = future
        self._ref: ObjectRef[Any] | None = ref

    def notify(self, entry: Entry) -> None:
        future, self._future, self._ref = self._future, None, None
        if future is None or not future.set_running_or_notify_cancel():
            return
        try:
            value = open_entry(entry)
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to who awaits
            future.set_exception(error)
        else:
            future.set_result(value)


def open_entry(entry: Entry) -> Any:
    """The value of a complete entry.

    Raises:
        The error it was completed with, as the user's class where it is a task's error.
    """
    if entry.state == entries.VALUE:
        return serialization.loads(entry.data)
    error = serialization.loads(entry.data)
    as_cause = getattr(error, "as_instanceof_cause", None)
    raise as_cause() if as_cause is not None else error


def rebuild(object_id: bytes, owner_address: str) -> ObjectRef[Any]:
    """A reference read from bytes: its own again, or a borrowed one.

    Raises:
        RuntimeError: this process has no runtime (call `init` first).
    """
    if resolve is None:
        raise RuntimeError(
            "an ObjectRef can only be unpickled in a process that called shoal.init()"
        )
    ref = resolve(object_id, owner_address)
    serialization.note_reference(ref)
    return ref


def another(entry: Entry) -> ObjectRef[Any]:
    """One more reference to a known entry."""
    changes.append((entry,))
    return ObjectRef(entry)
