"""Borrowed references: what this process told owners, and in which order it may say so.

Rule: a removal is held back while any addition is unacknowledged. Whoever handed a reference to us
keeps it alive until we let go of what we got it from; letting go first and registering later would
lose it.
"""

from __future__ import annotations

from collections import deque


class BorrowLedger:
    """Additions on their way and removals that wait for them. Pure; its user locks."""

    def __init__(self) -> None:
        self._unacknowledged: dict[bytes, int] = {}
        self._owners: dict[bytes, str] = {}
        self._held: deque[tuple[bytes, str]] = deque()

    @property
    def unacknowledged(self) -> set[bytes]:
        """Object ids whose addition no owner confirmed yet."""
        return set(self._unacknowledged)

    @property
    def is_waiting(self) -> bool:
        """Whether any addition is unconfirmed."""
        return bool(self._unacknowledged)

    def add(self, object_id: bytes, owner_address: str) -> None:
        """An addition is being sent.

        A removal of the same object that is still held is void: sent after the addition, it would
        take from the owner what it was just told.
        """
        if self._held:
            self._held = deque(one for one in self._held if one[0] != object_id)
        self._unacknowledged[object_id] = self._unacknowledged.get(object_id, 0) + 1
        self._owners[object_id] = owner_address

    def acknowledged(self, object_id: bytes) -> list[tuple[bytes, str]]:
        """The owner has it. Returns removals (object id, owner address) to send now."""
        count = self._unacknowledged.get(object_id, 0) - 1
        if count > 0:
            self._unacknowledged[object_id] = count
        else:
            self._forget(object_id)
        return self._release()

    def owner_gone(self, owner_address: str) -> tuple[list[bytes], list[tuple[bytes, str]]]:
        """Nothing sent there will be confirmed.

        Returns the ids that waited for it, and removals to send now.
        """
        lost = [i for i, address in self._owners.items() if address == owner_address]
        for object_id in lost:
            self._forget(object_id)
        return lost, self._release()

    def remove(self, object_id: bytes, owner_address: str) -> list[tuple[bytes, str]]:
        """The last local reference went. Returns removals to send now."""
        self._held.append((object_id, owner_address))
        return self._release()

    def _forget(self, object_id: bytes) -> None:
        self._unacknowledged.pop(object_id, None)
        self._owners.pop(object_id, None)

    def _release(self) -> list[tuple[bytes, str]]:
        if self._unacknowledged:
            return []
        ready = list(self._held)
        self._held.clear()
        return ready
