"""The executor `autoscaler`: steps of the cluster in, versioned snapshots out.

Questions are answered here, without the core: an autoscaler gets its answer however busy the core
is with placing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core.demand_facts import DemandUpdate
from gcs_service.core.demand_table import DemandTable
from gcs_service.core.effects import Refusal
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.journal import Lane
from gcs_service.shell.loop_bridge import LoopBridge, Output, resolve

Result = TypeVar("Result")


class DemandHost:
    """Owner of the demand table's thread. `ask` and `changed` belong to the loop's thread."""

    def __init__(self, table: DemandTable, lane: Lane, bridge: LoopBridge) -> None:
        self.table = table
        self._lane = lane
        self._bridge = bridge
        self._answers: list[Output] = []
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._told_version = table.version
        self.executor = NamedExecutor("autoscaler", batch_ended=self._carry_out)

    @property
    def waiters_count(self) -> int:
        """Questions that wait for a change."""
        return len(self._waiters)

    def apply(self, update: DemandUpdate) -> None:
        """One step of the cluster; from the core's thread."""
        self.executor.submit(self.table.apply, update)

    async def ask(self, work: Callable[[], Result]) -> Result:
        """Runs `work` on the executor; returns when what it wrote is durable."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.executor.submit(self._call, work, answer)
        return await answer

    async def changed(self, seen_version: int, wait_s: float) -> Refusal | None:
        """Returns when the version is another one than `seen_version`, or after `wait_s`."""
        if len(self._waiters) >= limits.DEMAND_WAITERS_MAX:
            text = f"{limits.DEMAND_WAITERS_MAX} autoscalers wait for changes already"
            return Refusal(fx.TABLE_FULL, text)
        end = asyncio.get_running_loop().time() + wait_s
        while True:
            # Entered before the look: a change in between finds the waiter.
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = None
            try:
                if self.table.version != seen_version:
                    return None
                async with asyncio.timeout_at(end):
                    await waiter
            except TimeoutError:
                return None
            finally:
                self._waiters.pop(waiter, None)

    def _call(self, work: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        try:
            self._answers.append((resolve, (answer, work(), None)))
        except Exception as error:  # the asker must not be left waiting
            self._answers.append((resolve, (answer, None, error)))
            raise

    def _carry_out(self) -> None:
        answers, self._answers = self._answers, []
        writes = self.table.take_writes()
        if writes or answers:
            self._lane.deliver(writes, answers)
        if self.table.version != self._told_version:
            self._told_version = self.table.version
            if self._waiters:
                self._bridge.post(self._wake)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
