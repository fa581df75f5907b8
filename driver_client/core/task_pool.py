"""Tasks of one scheduling key: which goes to which leased worker, how many leases to ask for.

Pure decisions; the shell sends. A key is everything that must be equal for a worker to be reused:
shape, selector, strategy, group and bundle, runtime environment (DESIGN section 8).

Depth: a worker whose tasks are known to be short gets several at a time, up to a window of time,
since one at a time pays a round trip each (CALIBRATION section 1). A worker takes back what waits
behind a task that turns out long, and its depth falls to one.

Alone: of several tasks in flight on a worker that crashes nobody knows which one did it, since a
result may be lost with the process that made it. So a task that must not run twice, and every task
that was in flight at a loss already, gets a worker for itself: the next loss names its cause.
"""

from __future__ import annotations

from collections import deque

from driver_client import limits
from driver_client.core.call import CallRecord

_MEAN_WEIGHT = 0.4


class LeasedWorker:
    """One lease and what is in flight on it."""

    __slots__ = (
        "alone",
        "draining",
        "idle_since_ms",
        "in_flight",
        "is_lost",
        "lease_id",
        "mean_us",
    )

    def __init__(self, lease_id: bytes) -> None:
        self.lease_id = lease_id
        self.in_flight = 0
        self.draining = False
        """Its node takes no new work: what is in flight may finish."""
        self.alone: int | None = None
        """Sequence of the task that has this worker for itself."""
        self.is_lost = False
        """Its stream broke: nothing more goes there while the cause is asked for."""
        self.mean_us = float(limits.PIPELINE_WINDOW_US)
        self.idle_since_ms: int | None = None

    @property
    def depth(self) -> int:
        """How many tasks may be in flight."""
        if self.is_lost:
            return 0
        if self.mean_us * limits.PIPELINE_DEPTH_MAX <= limits.PIPELINE_WINDOW_US:
            return limits.PIPELINE_DEPTH_MAX
        return max(1, int(limits.PIPELINE_WINDOW_US / self.mean_us))

    def observe(self, duration_us: float) -> None:
        """One task took so long, measured where it ran."""
        self.mean_us += _MEAN_WEIGHT * (duration_us - self.mean_us)


class TaskPool:
    """Queue, leases and outstanding lease requests of one key."""

    __slots__ = ("_attempts", "_cancelled", "leases", "queue", "requested")

    def __init__(self) -> None:
        self.queue: deque[CallRecord] = deque()
        self.leases: dict[bytes, LeasedWorker] = {}
        self.requested: dict[bytes, None] = {}
        self._attempts: dict[int, int] = {}
        self._cancelled: set[int] = set()

    def take_out(self, sequence: int) -> CallRecord | None:
        """Removes a task that was not pushed yet."""
        for record in self.queue:
            if record[0] == sequence:
                self.queue.remove(record)
                self.over(record)
                return record
        return None

    def cancelled(self, sequence: int) -> None:
        """A task in flight is to be cancelled: it is not tried again, whatever becomes of it."""
        self._cancelled.add(sequence)

    def requests_wanted(self) -> int:
        """How many more lease requests to send now."""
        wanted = min(len(self.queue), limits.LEASE_REQUESTS_PENDING_MAX)
        return max(0, wanted - len(self.requested))

    def backlog(self) -> int:
        """Tasks for which no request is open; what was pushed to a worker counts as running."""
        return max(0, len(self.queue) - len(self.requested))

    def requests_surplus(self) -> list[bytes]:
        """Requests to cancel since there are more of them than tasks; newest first."""
        surplus = max(0, len(self.requested) - len(self.queue))
        unwanted = list(reversed(self.requested))[:surplus]
        for lease_id in unwanted:
            del self.requested[lease_id]
        return unwanted

    def requests_unwanted(self) -> list[bytes]:
        """Lease requests to cancel since nothing waits for them; newest first."""
        if self.queue:
            return []
        unwanted = list(reversed(self.requested))
        self.requested.clear()
        return unwanted

    def granted(self, lease_id: bytes) -> LeasedWorker:
        """A lease came."""
        self.requested.pop(lease_id, None)
        worker = LeasedWorker(lease_id)
        self.leases[lease_id] = worker
        return worker

    def take_for(self, worker: LeasedWorker) -> list[CallRecord]:
        """Tasks to push to this worker now."""
        room = worker.depth - worker.in_flight
        queue = self.queue
        if room <= 0 or not queue or worker.draining:
            return []
        if worker.alone is not None:
            return []
        if self._runs_alone(queue[0]):
            return self._take_alone(worker)
        # Leases on their way find work too: what is left is shared with the workers that have room.
        share = max(1, -(-len(queue) // max(1, len(self.leases))))
        count = min(room, len(queue), share)
        batch: list[CallRecord] = []
        for _ in range(count):
            if self._runs_alone(queue[0]):
                break
            batch.append(queue.popleft())
        worker.in_flight += len(batch)
        worker.idle_since_ms = None
        return batch

    def _runs_alone(self, record: CallRecord) -> bool:
        return record[1].max_retries == 0 or record[0] in self._attempts

    def _take_alone(self, worker: LeasedWorker) -> list[CallRecord]:
        if worker.in_flight:
            return []
        record = self.queue.popleft()
        worker.in_flight = 1
        worker.alone = record[0]
        worker.idle_since_ms = None
        return [record]

    def finished(self, worker: LeasedWorker, count: int, busy_us: int) -> None:
        """`count` tasks of this worker are over; they ran for `busy_us` together."""
        worker.in_flight -= count
        worker.observe(busy_us / count)
        if worker.alone is not None:
            self._attempts.pop(worker.alone, None)
            worker.alone = None
        assert worker.in_flight >= 0, "more answers than tasks"

    def again(self, record: CallRecord, worker: LeasedWorker | None) -> None:
        """A task that raised runs once more, behind what waits; call before `finished`."""
        if worker is not None:
            worker.alone = None
        self.queue.append(record)

    def use_attempt(self, record: CallRecord) -> bool:
        """One run of the task failed or was lost. Whether another one is allowed."""
        allowed = record[1].max_retries
        if record[0] in self._cancelled:
            self.over(record)
            return False
        used = self._attempts.get(record[0], 0)
        if 0 <= allowed <= used:
            self.over(record)
            return False
        self._attempts[record[0]] = used + 1
        return True

    def over(self, record: CallRecord) -> None:
        """The task is over: nothing about it is remembered."""
        self._attempts.pop(record[0], None)
        self._cancelled.discard(record[0])

    def gave_back(self, records: list[CallRecord], worker: LeasedWorker | None) -> None:
        """Tasks that did not start: they go to the front, in their order."""
        self.queue.extendleft(reversed(records))
        if worker is not None:
            worker.in_flight -= len(records)
            worker.alone = None
            worker.mean_us = float(limits.PIPELINE_WINDOW_US)

    def idle_leases(self, before_ms: int) -> list[bytes]:
        """Leases idle since `before_ms` or longer."""
        return [
            lease_id
            for lease_id, worker in self.leases.items()
            if worker.idle_since_ms is not None and worker.idle_since_ms <= before_ms
        ]

    @property
    def is_empty(self) -> bool:
        """Nothing queued, leased or asked for."""
        return not (self.queue or self.leases or self.requested)
