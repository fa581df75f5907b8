"""Calls on their way from user threads to the I/O thread, and what waits for its arguments."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from driver_client.core.call import CallExtra, CallRecord
from driver_client.core.scheduling_key import SchedulingKey
from driver_client.objects import entry as entries
from driver_client.shell.actor_client import ActorClient
from driver_client.shell.dependencies import Dependencies
from driver_client.shell.owner_services import OwnerServices
from driver_client.shell.task_submitter import TaskSubmitter

Submission = tuple[SchedulingKey | ActorClient, CallRecord]


class Submissions:
    """`append` is for user threads, `take` for the I/O thread."""

    def __init__(
        self,
        services: OwnerServices,
        dependencies: Dependencies,
        tasks: Callable[[], TaskSubmitter],
    ) -> None:
        self._services = services
        self._dependencies = dependencies
        self._tasks = tasks
        self._waiting: deque[Submission] = deque()
        self.append = self._waiting.append

    def take(self) -> None:
        """Hands everything appended so far to pools and actor clients, in order."""
        waiting = self._waiting
        if not waiting:
            return
        tasks: dict[SchedulingKey, list[CallRecord]] = {}
        touched: list[ActorClient] = []
        while waiting:
            target, record = waiting.popleft()
            if type(target) is ActorClient:
                self._take_call(target, record, touched)
            else:
                self._take_task(target, record, tasks)  # pyright: ignore[reportArgumentType] - else
        for key, records in tasks.items():
            self._tasks().submit(key, records)
        for client in touched:
            client.flush()

    def _take_call(
        self, client: ActorClient, record: CallRecord, touched: list[ActorClient]
    ) -> None:
        client.outstanding += 1
        if not client.dirty:
            client.dirty = True
            touched.append(client)
        extra = record[4]
        if extra is not None and client.out_of_order:
            self._take_unordered(client, record, extra)
            return
        client.queue.append(record)
        if extra is not None:
            self._dependencies.wait(extra, client.flush)

    def _take_unordered(self, client: ActorClient, record: CallRecord, extra: CallExtra) -> None:
        sequence = record[0]
        client.waiting[sequence] = record
        if self._dependencies.wait(extra, lambda: client.arguments_ready(sequence)):
            client.queue.append(client.waiting.pop(sequence))

    def _take_task(
        self,
        key: SchedulingKey,
        record: CallRecord,
        tasks: dict[SchedulingKey, list[CallRecord]],
    ) -> None:
        extra = record[4]
        if extra is None or not extra.arguments:
            tasks.setdefault(key, []).append(record)
            return

        def ready() -> None:
            if record[3].state != entries.PENDING:
                return  # cancelled while it waited
            failed = self._dependencies.failure(extra)
            if failed is not None:
                self._services.complete_all(record, failed, entries.ERROR)
            else:
                self._tasks().submit(key, [record])

        if self._dependencies.wait(extra, ready):
            ready()
