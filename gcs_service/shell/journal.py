"""Durability and order: what depends on a write leaves after it; what does not, leaves at once.

Every executor that decides has a lane. A batch of effects goes through the lane: when it writes, or
when an earlier batch of the lane is still being written, its outputs wait behind the storage
executor; otherwise they go straight to the loop, without an extra thread hop. So outputs of one
lane never overtake each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster_common.transport.logs import get_logger
from gcs_service import limits
from gcs_service.core.tables import Write
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.loop_bridge import LoopBridge, Output
from gcs_service.shell.storage.protocol import Storage, StorageError

log = get_logger()


class Journal:
    """Group commit: everything queued while one transaction ran becomes the next one."""

    def __init__(
        self, storage: Storage, bridge: LoopBridge, failed: Callable[[StorageError], None]
    ) -> None:
        self._storage = storage
        self._bridge = bridge
        self._failed = failed
        self._writes: list[Write] = []
        self._waiting: list[tuple[Lane, list[Output]]] = []
        self.executor = NamedExecutor("storage", batch_ended=self._commit)
        self.transactions = 0
        self.rows_written = 0
        self.is_broken = False

    @property
    def is_instant(self) -> bool:
        """Whether the back end needs no thread."""
        return self._storage.is_instant

    def commit_now(self, writes: Sequence[Write]) -> None:
        """For instant back ends, and before the executors run."""
        self._storage.commit(writes)
        self.transactions += 1
        self.rows_written += len(writes)

    def submit(self, lane: Lane, writes: Sequence[Write], outputs: list[Output]) -> None:
        """Queues a batch; from the lane's thread."""
        self.executor.submit(self._add, lane, writes, outputs)

    def _add(self, lane: Lane, writes: Sequence[Write], outputs: list[Output]) -> None:
        self._writes.extend(writes)
        self._waiting.append((lane, outputs))
        if len(self._writes) >= limits.JOURNAL_ROWS_MAX:
            self._commit()

    def _commit(self) -> None:
        writes, waiting = self._writes, self._waiting
        self._writes, self._waiting = [], []
        if writes and not self.is_broken:
            try:
                self.commit_now(writes)
            except StorageError as error:
                # Nothing that depends on a lost write may be said: later batches are held back too.
                self.is_broken = True
                log.exception("storage_failed")
                self._failed(error)
        for lane, outputs in waiting:
            if not self.is_broken:
                self._bridge.post_many(outputs)
            # After the post: a direct output of the lane that sees the count queues behind these.
            lane.completed += 1


class Lane:
    """The ordered way out of one executor. `deliver` belongs to that executor's thread."""

    def __init__(self, journal: Journal, bridge: LoopBridge) -> None:
        self._journal = journal
        self._bridge = bridge
        self._submitted = 0
        self.completed = 0

    def deliver(self, writes: Sequence[Write], outputs: list[Output]) -> None:
        """Writes, then outputs; in the order of the calls."""
        if writes and self._journal.is_instant:
            self._journal.commit_now(writes)
        elif writes or self._submitted != self.completed:
            self._submitted += 1
            self._journal.submit(self, writes, outputs)
            return
        if outputs:
            self._bridge.post_many(outputs)
