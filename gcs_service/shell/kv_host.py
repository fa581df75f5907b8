"""The executor `kv`: its own table, its own lane to the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from gcs_service.core import package_rows
from gcs_service.core.kv_table import KvTable
from gcs_service.core.moment import Moment
from gcs_service.shell import clock
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.journal import Lane
from gcs_service.shell.loop_bridge import Output, resolve, resolve_read

Result = TypeVar("Result")


class KvHost:
    """Owner of the key-value table's thread."""

    def __init__(self, table: KvTable, lane: Lane) -> None:
        self.table = table
        self._lane = lane
        self._answers: list[Output] = []
        self.executor = NamedExecutor("kv", batch_ended=self._carry_out)

    async def ask(self, work: Callable[[Moment], Result]) -> Result:
        """Runs `work` on the executor; returns when what it wrote is durable."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.executor.submit(self._call, work, answer)
        return await answer

    def forget_packages(self, prefix: bytes) -> None:
        """Removes directory rows of a job or actor that ended; nobody waits."""
        self.executor.submit(self._forget, prefix)

    def forget_left_packages(self, is_wanted: Callable[[bytes], bool]) -> None:
        """Removes directory rows that nobody needs any more. Before the executor starts."""
        package_rows.forget_left(self.table, is_wanted, clock.now())

    def _forget(self, prefix: bytes) -> None:
        package_rows.forget(self.table, prefix, clock.now())

    def _call(self, work: Callable[[Moment], Any], answer: asyncio.Future[Any]) -> None:
        written = len(self.table.writes)
        try:
            result = work(clock.now())
            answers_write = len(self.table.writes) > written
            self._answers.append((resolve if answers_write else resolve_read, (answer, result)))
        except Exception as error:  # the asker must not be left waiting
            self._answers.append((resolve, (answer, None, error)))
            raise

    def _carry_out(self) -> None:
        answers, self._answers = self._answers, []
        writes = self.table.take_writes()
        if writes or answers:
            self._lane.deliver(writes, answers)
