"""Blocks user threads until objects are complete; lends a worker's CPU meanwhile.

`get` for many waits for the newest first: results come in frames, so one wake-up covers most of
them. `wait` looks again once per frame. Neither registers anything per object on the common path.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from driver_client import exceptions, limits
from driver_client.objects import entry as entries
from driver_client.objects.entry import Entry, Gate


class _EntryGate(Gate):
    """A gate that one entry opens."""

    __slots__ = ()

    def notify(self, entry: Entry) -> None:
        self.open()


class _ErrorFlag(Gate):
    """Opened at every error in the process: remembers it and wakes the thread that waits."""

    __slots__ = ("_raised", "gate")

    def __init__(self) -> None:
        super().__init__()
        self._raised = True  # errors from before the wait count too
        self.gate: Gate | None = None

    def open(self) -> None:
        self._raised = True
        if self.gate is not None:
            self.gate.open()

    def take(self) -> bool:
        """Whether there was an error since the last look."""
        raised, self._raised = self._raised, False
        return raised


class Blocking:
    """`blocked` and `unblocked` are set in workers: they tell the agent."""

    def __init__(self) -> None:
        self.blocked: Callable[[], None] | None = None
        self.unblocked: Callable[[], None] | None = None

    def until_complete(self, wanted: Sequence[Entry], timeout_s: float | None) -> None:
        """Returns when all are complete, or one has an error.

        Raises:
            GetTimeoutError: not in time.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        flag = _ErrorFlag()
        entries.error_watchers.append(flag)
        try:
            for entry in reversed(wanted):
                if entry.state == entries.PENDING and not self._complete(
                    entry, wanted, flag, deadline
                ):
                    if any(e.state == entries.ERROR for e in wanted):
                        return
                    raise _timed_out(entry, wanted, timeout_s)
        finally:
            entries.error_watchers.remove(flag)

    def _complete(
        self, entry: Entry, wanted: Sequence[Entry], flag: _ErrorFlag, deadline: float | None
    ) -> bool:
        """Waits for one entry; False: another one has an error, or time ran out."""
        gate = flag.gate = _EntryGate()
        entry.add_waiter(gate)
        try:
            while entry.state == entries.PENDING:
                # Looked for only after some call of this process failed, not at each wake-up.
                if flag.take() and any(e.state == entries.ERROR for e in wanted):
                    return False
                if not self._pass(gate, deadline):
                    return entry.state != entries.PENDING
        finally:
            entry.drop_waiter(gate)
        return True

    def until_count(
        self, wanted: Sequence[Entry], count: int, timeout_s: float | None
    ) -> list[int]:
        """Positions of the first `count` complete entries in order; fewer when time ran out."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        ready = _first_complete(wanted, count)
        if len(ready) >= count:
            return ready
        gate = Gate()
        entries.any_watchers.append(gate)
        try:
            while True:
                gate.reset()
                ready = _first_complete(wanted, count)
                if len(ready) >= count or not self._pass(gate, deadline):
                    return ready
        finally:
            entries.any_watchers.remove(gate)

    def _pass(self, gate: Gate, deadline: float | None) -> bool:
        if self.blocked is None:
            return gate.pass_through(_left(deadline))
        soon = limits.BLOCKED_AFTER_MS / 1000
        left = _left(deadline)
        if gate.pass_through(soon if left is None else min(soon, left)):
            return True
        if left is not None and left <= soon:
            return False
        self.blocked()
        try:
            return gate.pass_through(_left(deadline))
        finally:
            if self.unblocked is not None:
                self.unblocked()


def _timed_out(
    entry: Entry, wanted: Sequence[Entry], timeout_s: float | None
) -> exceptions.GetTimeoutError:
    pending = sum(e.state == entries.PENDING for e in wanted)
    return exceptions.GetTimeoutError(
        f"get() timed out after {timeout_s:g} s: {pending} of {len(wanted)} object(s) are not "
        f"ready, among them {entry.object_id.hex()}"
    )


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _first_complete(wanted: Sequence[Entry], count: int) -> list[int]:
    ready: list[int] = []
    for position, entry in enumerate(wanted):
        if entry.state != entries.PENDING:
            ready.append(position)
            if len(ready) == count:
                break
    return ready
