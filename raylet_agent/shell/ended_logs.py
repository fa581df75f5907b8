"""Log files of workers that ended: the newest stay, so that they do not fill a node's disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path

from cluster_api.v1 import agent_pb2 as a
from raylet_agent import limits
from raylet_agent.core.table_size import table


class EndedLogs:
    """Files in the order of their workers' ends.

    Args:
        files_max: how many are kept.
        bytes_max: how much they hold together.
    """

    def __init__(
        self,
        files_max: int = limits.ENDED_LOG_FILES_MAX,
        bytes_max: int = limits.ENDED_LOG_BYTES_MAX,
    ) -> None:
        self._files_max = files_max
        self._bytes_max = bytes_max
        self._files: deque[tuple[Path, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._files)

    def table(self) -> a.AgentTable:
        """Its size and caps."""
        return table("ended_log", len(self), self._files_max, self._bytes, self._bytes_max)

    def add(self, files: Iterable[tuple[Path, int]]) -> None:
        """Files that nobody writes to any more, with their sizes; of too many the oldest go."""
        for path, size in files:
            self._files.append((path, size))
            self._bytes += size
        while len(self._files) > self._files_max or self._bytes > self._bytes_max:
            path, size = self._files.popleft()
            self._bytes -= size
            path.unlink(missing_ok=True)
