"""Waits for arguments that are not there yet; those that are cost nothing (DESIGN section 8)."""

from __future__ import annotations

from collections.abc import Callable

from driver_client.core.call import CallExtra
from driver_client.object_ref import entry_of
from driver_client.objects import entry as entries
from driver_client.objects.entry import Entry
from driver_client.shell.ownership import Ownership


class Dependencies:
    """I/O thread only."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def wait(self, extra: CallExtra, ready: Callable[[], None]) -> bool:
        """True: all arguments are complete now. Else `ready` is called when the last one is."""
        pending: list[Entry] = []
        for _, ref in extra.arguments:
            entry = entry_of(ref)
            if entry.state == entries.PENDING:
                pending.append(entry)
        extra.unready = len(pending)
        if not pending:
            return True
        waiter = _ArgumentWaiter(extra, ready, self._ownership)
        for entry in pending:
            if not entry.add_waiter(waiter):
                entry.drop_waiter(waiter)
                waiter.notify(entry)
            else:
                self._ownership.fetch(entry)
        return False

    @staticmethod
    def failure(extra: CallExtra) -> bytes | None:
        """The error of the first argument that failed."""
        for _, ref in extra.arguments:
            entry = entry_of(ref)
            if entry.state == entries.ERROR:
                return entry.data
        return None


class _ArgumentWaiter:
    def __init__(self, extra: CallExtra, ready: Callable[[], None], ownership: Ownership) -> None:
        self._extra = extra
        self._ready = ready
        self._ownership = ownership

    def notify(self, entry: Entry) -> None:
        self._extra.unready -= 1
        if self._extra.unready == 0:
            self._ownership.on_io(self._ready)
