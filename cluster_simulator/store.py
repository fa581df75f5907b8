"""A disk that forgets what was not committed, and a journal as the GCS has it.

A commit takes time; everything queued meanwhile becomes the next one. When the process dies during
a commit, the disk may or may not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from cluster_simulator import costs
from cluster_simulator.event_heap import EventHeap
from gcs_service.core import tables
from gcs_service.core.tables import Write

Output = tuple[Callable[..., object], tuple[Any, ...]]


class Disk:
    """Durable rows. Outlives the processes that write it."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[bytes, bytes]] = {name: {} for name in tables.ALL_TABLES}
        self.commits = 0

    def commit(self, writes: Sequence[Write]) -> None:
        """All or nothing."""
        self.commits += 1
        for write in writes:
            table = self.rows[write.table]
            if write.value is None:
                table.pop(write.key, None)
            else:
                table[write.key] = write.value

    def load(self) -> dict[str, list[tuple[bytes, bytes]]]:
        """Everything, in the order of the keys."""
        return {name: sorted(table.items()) for name, table in self.rows.items()}


class Journal:
    """One lane: outputs never overtake the writes they depend on, nor each other."""

    def __init__(
        self, disk: Disk, heap: EventHeap, dice: Random, carry: Callable[[list[Output]], None]
    ) -> None:
        self._disk = disk
        self._heap = heap
        self._dice = dice
        self._carry = carry
        self._waiting: list[tuple[Sequence[Write], list[Output]]] = []
        self._committing: list[tuple[Sequence[Write], list[Output]]] = []
        self._is_dead = False
        self.slow_us = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._committing)

    def deliver(self, writes: Sequence[Write], outputs: list[Output]) -> None:
        """Writes, then outputs."""
        if writes or self._waiting or self._committing:
            self._waiting.append((writes, outputs))
            self._begin()
        elif outputs:
            self._carry(outputs)

    def die(self) -> None:
        """The process is gone; a running commit may have reached the disk."""
        self._is_dead = True
        if self._committing and self._dice.random() < 0.5:
            self._disk.commit([write for writes, _ in self._committing for write in writes])
        self._committing, self._waiting = [], []

    def _begin(self) -> None:
        if self._committing or not self._waiting:
            return
        self._committing, self._waiting = self._waiting, []
        delay = costs.COMMIT_US + self._dice.randrange(costs.COMMIT_JITTER_US) + self.slow_us
        self._heap.after(delay, self._done)

    def _done(self) -> None:
        if self._is_dead:
            return
        done, self._committing = self._committing, []
        self._disk.commit([write for writes, _ in done for write in writes])
        for _, outputs in done:
            if outputs and not self._is_dead:
                self._carry(outputs)
        self._begin()
