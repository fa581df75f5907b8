"""What runtime environments left on this node's disk, who uses it, what goes when room is short.

Entries are packages, unpacked trees and virtual environments, by a key that names their content.
Only unused ones go, the least recently used first; what is in use may exceed the bound.
"""

from __future__ import annotations

import msgspec

from cluster_api.v1 import agent_pb2 as a
from raylet_agent.core.table_size import table


class CacheEntry(msgspec.Struct):
    """One thing on the disk."""

    size_bytes: int
    users: dict[str, None] = {}


class EnvironmentCache:
    """Entries from the least to the most recently used.

    Args:
        bytes_max: of all entries together.
        entries_max: their number.
    """

    def __init__(self, bytes_max: int, entries_max: int) -> None:
        self._bytes_max = bytes_max
        self._entries_max = entries_max
        self._entries: dict[str, CacheEntry] = {}
        self.bytes_used = 0

    def __len__(self) -> int:
        return len(self._entries)

    def table(self) -> a.AgentTable:
        """Its size and caps."""
        return table("environment", len(self), self._entries_max, self.bytes_used, self._bytes_max)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def add(self, key: str, size_bytes: int, user: str) -> None:
        """Something was made, for this user."""
        assert key not in self._entries, f"{key} is in the cache"
        self._entries[key] = CacheEntry(size_bytes, {user: None})
        self.bytes_used += size_bytes

    def use(self, key: str, user: str) -> bool:
        """Another user; False: it is not here."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._entries[key] = entry
        entry.users[user] = None
        return True

    def release(self, user: str) -> None:
        """A user needs nothing any more."""
        for key in [key for key, entry in self._entries.items() if user in entry.users]:
            entry = self._entries.pop(key)
            self._entries[key] = entry
            del entry.users[user]

    def take_victims(self) -> list[str]:
        """Keys that leave the cache now, for their files to be deleted."""
        victims: list[str] = []
        for key, entry in list(self._entries.items()):
            if self.bytes_used <= self._bytes_max and len(self._entries) <= self._entries_max:
                break
            if not entry.users:
                del self._entries[key]
                self.bytes_used -= entry.size_bytes
                victims.append(key)
        return victims
