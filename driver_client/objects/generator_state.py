"""What the owner of a streaming task knows of its items: I/O adds, one consumer takes."""

from __future__ import annotations

from collections.abc import Callable

from driver_client.objects import entry as entries
from driver_client.objects.entry import Entry, Gate


class GeneratorState:
    """Items by index; an item that comes again after a retry is void.

    Attributes:
        end: completes when the generator is exhausted (None) or failed (its error).
        consumed: told after each item that was taken, for back-pressure.
    """

    def __init__(self, end: Entry, make_entry: Callable[[int], Entry]) -> None:
        self.end = end
        self.consumed: Callable[[int], None] | None = None
        self._make_entry = make_entry
        self._items: dict[int, Entry] = {}
        self._next = 0
        self._gate = Gate()
        self._failed_taken = False
        self._upcoming: Entry | None = None

    # ---- I/O thread

    def add(self, index: int, data: bytes) -> Entry | None:
        """An item came; its entry, or None if it is known already."""
        if index in self._items or index < self._next:
            return None
        entry = self._make_entry(index)
        entry.complete(data, entries.VALUE)
        self._items[index] = entry
        self._tell()
        return entry

    def ended(self) -> None:
        """`end` is complete."""
        self._tell()

    def _tell(self) -> None:
        self._gate.open()
        upcoming = self._upcoming
        if upcoming is not None and self._would_not_wait:
            upcoming.complete(b"", entries.VALUE)

    # ---- consumer

    @property
    def is_exhausted(self) -> bool:
        """Whether everything was taken."""
        if self.end.state == entries.PENDING or self._items:
            return False
        return self.end.state == entries.VALUE or self._failed_taken

    @property
    def has_next(self) -> bool:
        """Whether an item, or the failure, is there to take."""
        if self._next in self._items:
            return True
        return self.end.state == entries.ERROR and not self._items and not self._failed_taken

    @property
    def _would_not_wait(self) -> bool:
        return self._next in self._items or self.end.state != entries.PENDING

    def upcoming(self) -> Entry:
        """An entry that is complete as soon as `take` would not wait: for `wait`."""
        entry = self._upcoming
        ready = self._would_not_wait
        if entry is None or (entry.state != entries.PENDING and not ready):
            entry = self._upcoming = Entry(0, b"", "")
            ready = self._would_not_wait  # it may have come since the first look
        if ready:
            entry.complete(b"", entries.VALUE)
        return entry

    def take(self, timeout_s: float | None = None) -> Entry | None:
        """The next item's entry; a failure's entry once; None when there is no more.

        Raises:
            TimeoutError: no item within the time.
        """
        while True:
            self._gate.reset()
            entry = self._items.pop(self._next, None)
            if entry is not None:
                self._next += 1
                if self.consumed is not None:
                    self.consumed(self._next)
                return entry
            if self.end.state != entries.PENDING and not self._items:
                if self.end.state == entries.ERROR and not self._failed_taken:
                    self._failed_taken = True
                    return self.end
                return None
            if not self._gate.pass_through(timeout_s):
                raise TimeoutError
