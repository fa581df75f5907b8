"""The executor `autoscaler`: demand reports in, one versioned snapshot out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.core.demand_table import DemandTable
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.loop_bridge import LoopBridge

Result = TypeVar("Result")


class DemandHost:
    """Owner of the demand table's thread."""

    def __init__(self, table: DemandTable, bridge: LoopBridge) -> None:
        self.table = table
        self._bridge = bridge
        self.executor = NamedExecutor("autoscaler")

    def report(self, node_id: bytes, report: ns.DemandReport) -> None:
        """An agent's whole demand."""
        self.executor.submit(self.table.report, node_id, report)

    def forget(self, node_id: bytes) -> None:
        """The agent begins anew, or is gone."""
        self.executor.submit(self.table.forget, node_id)

    async def ask(self, work: Callable[[], Result]) -> Result:
        """Runs `work` on the executor."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.executor.submit(self._answer, work, answer)
        return await answer

    def _answer(self, work: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        try:
            self._bridge.post(_resolve, answer, work(), None)
        except Exception as error:  # the asker must not be left waiting
            self._bridge.post(_resolve, answer, None, error)
            raise


def _resolve(answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)
