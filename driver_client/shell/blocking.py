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
        for entry in reversed(wanted):
            if entry.state != entries.PENDING:
                continue
            gate = _EntryGate()
            many = len(wanted) > 1
            if many:
                entries.error_watchers.append(gate)
            try:
                entry.add_waiter(gate)
                while entry.state == entries.PENDING:
                    if many and any(e.state == entries.ERROR for e in wanted):
                        return
                    if not self._pass(gate, deadline):
                        raise exceptions.GetTimeoutError(
                            f"get() timed out after {timeout_s:g} s: "
                            f"{sum(e.state == entries.PENDING for e in wanted)} of {len(wanted)} "
                            f"object(s) are not ready, among them {entry.object_id.hex()}"
                        )
            finally:
                entry.drop_waiter(gate)
                if many:
                    entries.error_watchers.remove(gate)

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
