"""A slow sync: snapshots of all agents leave together, some time after the first that waits.

One timer for the whole fleet.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Reporter(Protocol):
    """Whose snapshot waits."""

    def report_now(self) -> None:
        """Sends the newest one."""
        ...


class HeldSnapshots:
    """Agents whose numbers changed since the last release."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._waiting: dict[Reporter, None] = {}

    def hold(self, reporter: Reporter) -> None:
        """Its snapshot leaves with the others'."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(self._delay_s, self._release)
        self._waiting[reporter] = None

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for reporter in waiting:
            reporter.report_now()
