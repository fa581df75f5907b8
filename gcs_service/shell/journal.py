"""Durability and order: what depends on a write leaves after it; what does not, leaves at once.

Every executor that decides has a lane. A batch of effects goes through the lane: when it writes, or
when an earlier batch of the lane is still being written, its outputs wait behind the storage
executor; otherwise they go straight to the loop, without an extra thread hop. So outputs of one
lane never overtake each other.

While the store cannot be written the service is read-only: who waits for a write is told so,
answers that depend on no write pass, every other output is held in order with the rows it depends
on, and the store is tried again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cluster_common.transport.logs import get_logger
from gcs_service import limits
from gcs_service.core.tables import Write
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.loop_bridge import LoopBridge, Output, resolve, resolve_read
from gcs_service.shell.storage.protocol import (
    Storage,
    StorageError,
    StoreLostError,
    StoreTakenError,
)

log = get_logger()

_ANSWERS = (resolve, resolve_read)


class Journal:
    """Group commit: everything queued while one transaction ran becomes the next one.

    Args:
        failed: from the storage thread, when the service must end: nothing is said any more.
    """

    def __init__(self, storage: Storage, failed: Callable[[StorageError], None]) -> None:
        self._storage = storage
        self._failed = failed
        self._writes: list[Write] = []
        self._waiting: list[tuple[Lane, bool, list[Output]]] = []
        self._held_rows: dict[tuple[str, bytes], Write] = {}
        self._held: list[tuple[Lane, list[Output]]] = []
        self._held_outputs = 0
        self._retry_ns: int | None = None
        self._look_ns = self._next_look_ns()
        self.executor = NamedExecutor(
            "storage",
            batch_ended=self._commit,
            next_deadline_ns=lambda: self._retry_ns or self._look_ns,
            deadline_reached=self._deadline_reached,
        )
        self.transactions = 0
        self.rows_written = 0
        self.times_lost = 0
        self.problem = ""
        self.is_broken = False

    @property
    def is_instant(self) -> bool:
        """Whether the back end needs no thread."""
        return self._storage.is_instant

    @property
    def is_read_only(self) -> bool:
        """Whether the store is lost; `problem` says how."""
        return bool(self.problem)

    @property
    def held_rows(self) -> int:
        """Rows that wait for the store to come back."""
        return len(self._held_rows)

    @property
    def held_outputs(self) -> int:
        """What is to be said when it is back."""
        return self._held_outputs

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
        self._waiting.append((lane, bool(writes), outputs))
        if len(self._writes) >= limits.JOURNAL_ROWS_MAX:
            self._commit()

    def _commit(self) -> None:
        writes, waiting = self._writes, self._waiting
        self._writes, self._waiting = [], []
        if self.is_broken:
            return
        if self.problem:
            self._hold(writes, waiting)
            return
        if writes:
            try:
                self.commit_now(writes)
            except StorageError as error:
                self._lose(error)
                self._hold(writes, waiting)
                return
        for lane, _, outputs in waiting:
            self._release(lane, outputs)

    def _release(self, lane: Lane, outputs: list[Output]) -> None:
        lane.post(outputs)
        # After the post: a direct output of the lane that sees the count queues behind these.
        lane.completed += 1

    # ---- while nothing is written

    def _next_look_ns(self) -> int | None:
        if not self._storage.is_remote:
            return None
        return time.monotonic_ns() + limits.STORE_LOOK_MS * 1_000_000

    def _deadline_reached(self) -> None:
        if self.problem:
            self._try_again()
            return
        self._look_ns = self._next_look_ns()
        try:
            self._storage.commit(())
        except StorageError as error:
            self._lose(error)

    # ---- while the store is lost

    def _lose(self, error: StorageError) -> None:
        self.times_lost += 1
        self.problem = str(error)
        self._retry_ns = time.monotonic_ns() + limits.STORE_RETRY_MS * 1_000_000
        log.error("store_lost", problem=str(error))
        if isinstance(error, StoreTakenError):
            self._break(error)

    def _hold(
        self, writes: Sequence[Write], waiting: Sequence[tuple[Lane, bool, list[Output]]]
    ) -> None:
        for write in writes:
            self._held_rows[write.table, write.key] = write
        for lane, has_writes, outputs in waiting:
            answers = [output for output in outputs if output[0] in _ANSWERS]
            others = [output for output in outputs if output[0] not in _ANSWERS]
            if has_writes:
                answers = [self._lost(answer) for answer in answers]
            if not self.is_broken:
                lane.post(answers)
            self._held.append((lane, others))
            self._held_outputs += len(others)
        too_many = (
            self._held_outputs > limits.STORE_LOST_OUTPUTS_MAX
            or len(self._held_rows) > limits.STORE_LOST_ROWS_MAX
        )
        if too_many and not self.is_broken:
            self._break(StorageError(f"too much waits for the store: {self.problem}"))

    def _lost(self, answer: Output) -> Output:
        call, args = answer
        if call is resolve_read:
            return answer
        text = f"read-only, this write may or may not last: {self.problem}"
        return (resolve, (args[0], None, StoreLostError(text)))

    def _try_again(self) -> None:
        try:
            self.commit_now(list(self._held_rows.values()))
        except StoreTakenError as error:
            self._break(error)
            return
        except StorageError as error:
            self.problem = str(error)
            self._retry_ns = time.monotonic_ns() + limits.STORE_RETRY_MS * 1_000_000
            return
        log.info("store_is_back", rows=len(self._held_rows), outputs=self._held_outputs)
        held, self._held = self._held, []
        self._held_rows.clear()
        self._held_outputs = 0
        self._retry_ns = None
        self._look_ns = self._next_look_ns()
        self.problem = ""
        for lane, outputs in held:
            self._release(lane, outputs)

    def _break(self, error: StorageError) -> None:
        log.error("store_given_up", problem=str(error))
        self.is_broken = True
        self._retry_ns = self._look_ns = None
        self._held.clear()
        self._held_rows.clear()
        self._failed(error)


class Lane:
    """The ordered way out of one executor. `deliver` belongs to that executor's thread.

    Each lane has a bridge of its own: what one executor says does not queue behind another's.
    """

    def __init__(self, journal: Journal, bridge: LoopBridge) -> None:
        self._journal = journal
        self._bridge = bridge
        self._submitted = 0
        self.completed = 0

    @property
    def backlog(self) -> int:
        """Outputs that wait for the loop."""
        return self._bridge.queue_length

    def post(self, outputs: Sequence[Output]) -> None:
        """Lets outputs go; the journal's side of the lane."""
        self._bridge.post_many(outputs)

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
