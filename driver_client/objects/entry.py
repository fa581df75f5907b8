"""One object as this process knows it: its value or error, who waits, what it keeps alive.

Threads: the I/O thread completes entries and counts references; user threads read `state` and
`data` and register waiters. The order makes that safe without a lock on the fast path: completion
writes data, then state, then looks at the waiters; a waiter registers, then looks at the state
again.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

from cluster_common import ids
from driver_client import limits

PENDING = 0
VALUE = 1
ERROR = 2

_register = threading.Lock()


class Gate:
    """Blocks one thread until anything it may care about happened; it then looks again."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """Lets the thread through once."""
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:
                return  # somebody else opened it in between

    def reset(self) -> None:
        """Forgets an earlier opening; look at the entries after this."""
        self._lock.acquire(blocking=False)

    def pass_through(self, timeout_s: float | None) -> bool:
        """Whether the gate opened within the time; None: no limit."""
        # In slices: a Ctrl-C that comes just before the lock blocks would not interrupt it.
        left = timeout_s
        while left is None or left > limits.INTERRUPT_LOOK_S:
            if self._lock.acquire(timeout=limits.INTERRUPT_LOOK_S):
                return True
            left = None if left is None else left - limits.INTERRUPT_LOOK_S
        return self._lock.acquire(timeout=max(0.0, left))


any_watchers: list[Gate] = []
"""Gates of `wait` calls: opened once per completed frame, not once per object."""

error_watchers: list[Gate] = []
"""Gates of `get` calls for many objects: the first error ends them (RAY_FACTS A6)."""


def open_gates(gates: list[Gate]) -> None:
    """Opens all gates of a list."""
    for gate in tuple(gates):
        gate.open()


class Waiter(Protocol):
    """Told once when an entry is complete; called on the thread that completes it."""

    def notify(self, entry: Entry) -> None:
        """`entry` has a value or an error now."""
        ...


class Entry:
    """State of one object. `local`, `pins` and `borrowers` belong to the I/O thread.

    Attributes:
        key: sequence + (return index << 64) for own objects, the object id for borrowed ones.
        data: serialized value or error.
        contained: references inside the value: alive as long as this entry.
        siblings: the other returns of the same task.
        actor: the handle's actor when this entry counts handles.
        group_id: the placement group whose readiness this entry is.
    """

    __slots__ = (
        "actor",
        "borrowers",
        "contained",
        "data",
        "generator",
        "group_id",
        "is_actor_call",
        "key",
        "local",
        "owner_address",
        "owner_id",
        "siblings",
        "state",
        "waiters",
    )

    def __init__(self, key: int | bytes, owner_id: bytes, owner_address: str) -> None:
        self.key = key
        self.owner_id = owner_id
        self.owner_address = owner_address
        self.state = PENDING
        self.data: bytes = b""
        self.waiters: list[Waiter] | None = None
        self.local = 1
        self.borrowers: set[bytes] | None = None
        self.contained: list[Any] | None = None
        self.siblings: list[Entry] | None = None
        self.actor: Any = None
        self.group_id: bytes = b""
        self.generator: Any = None
        self.is_actor_call = False

    @property
    def object_id(self) -> bytes:
        """The 28 bytes that name the object everywhere."""
        key = self.key
        if isinstance(key, bytes):
            return key
        sequence = key & 0xFFFF_FFFF_FFFF_FFFF
        index = key >> 64
        return ids.object_id(ids.task_id(ids.OwnerId(self.owner_id), sequence), index)

    def add_waiter(self, waiter: Waiter) -> bool:
        """Registers a waiter; False when the entry is complete already (it may be told even so)."""
        with _register:
            if self.waiters is None:
                self.waiters = [waiter]
            else:
                self.waiters.append(waiter)
        return self.state == PENDING

    def drop_waiter(self, waiter: Waiter) -> None:
        """Forgets a waiter that gave up."""
        with _register:
            if self.waiters is not None and waiter in self.waiters:
                self.waiters.remove(waiter)

    def complete(self, data: bytes, state: int) -> None:
        """Sets the value or error and tells the waiters. A second completion is void."""
        if self.state != PENDING:
            return
        self.data = data
        self.state = state
        if self.waiters is not None:
            self.tell()
        if any_watchers:
            open_gates(any_watchers)
        if state == ERROR and error_watchers:
            open_gates(error_watchers)

    def tell(self) -> None:
        """Tells all waiters; call after `state` was set."""
        with _register:
            waiters, self.waiters = self.waiters, None
        for waiter in waiters or ():
            waiter.notify(self)


def key_of(object_id: bytes) -> int:
    """Key of an own object."""
    return ids.sequence_of(object_id) | (ids.return_index_of(object_id) << 64)
