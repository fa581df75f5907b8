"""Agents that could not be reached, and the requests that were sent there all the same.

Who names an agent may not have heard yet that it is gone; while the GCS is away it never does. Such
a request waits here and is asked again now and then, instead of going round as fast as it can.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from driver_client import limits
from driver_client.core import lease_effects as fx
from driver_client.core.asked_lease import AskedLease


class LostAgents:
    """Which addresses did not answer lately, and who waits for that to change.

    Args:
        effects: of the routes.
        ask: asks for a lease again; it may be nobody's any more.
    """

    __slots__ = ("_ask", "_delay_ms", "_effects", "_is_due", "_known", "_tried", "_waiting")

    def __init__(self, effects: deque[fx.Effect], ask: Callable[[bytes], None]) -> None:
        self._effects = effects
        self._ask = ask
        self._known: dict[str, bool] = {}
        """Lost and not heard since; whether the process is gone for good."""
        self._tried: dict[str, None] = {}
        """Of these the ones that were tried since the last look."""
        self._waiting: dict[bytes, None] = {}
        self._delay_ms = limits.LOST_AGENT_RETRY_MS_MIN
        self._is_due = False

    def is_known(self, address: str) -> bool:
        """Whether its loss is no news: it was lost before and not heard since."""
        return address in self._known

    def is_tried(self, address: str) -> bool:
        """Whether there is no use in asking there before the next look."""
        return address in self._tried

    def is_gone(self, address: str) -> bool:
        """Whether nobody listened there: what was asked there can never be granted."""
        return self._known.get(address, False)

    def lost(self, address: str, *, gone: bool) -> None:
        """It cannot be reached. `gone`: its process has ended."""
        if address not in self._known and len(self._known) >= limits.LOST_AGENTS_REMEMBERED_MAX:
            del self._known[next(iter(self._known))]
        self._known[address] = gone
        self._tried[address] = None
        self._look_later()

    def heard(self, address: str) -> None:
        """Somebody answers there."""
        if address in self._known:
            del self._known[address]
            self._tried.pop(address, None)
            self._delay_ms = limits.LOST_AGENT_RETRY_MS_MIN

    def wait(self, lease: AskedLease) -> None:
        """This request is asked again at the next look."""
        lease.move(None)
        self._waiting[lease.request.lease_id] = None
        self._look_later()

    def release(self) -> None:
        """There is somebody else to ask."""
        waiting, self._waiting = self._waiting, {}
        for lease_id in waiting:
            self._ask(lease_id)

    def look_again(self) -> None:
        """`LookAgain` is due: each address may be tried once more, and what waits is asked."""
        self._is_due = False
        self._tried.clear()
        if self._waiting:
            self._delay_ms = min(self._delay_ms * 2, limits.LOST_AGENT_RETRY_MS_MAX)
        self.release()

    def _look_later(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._effects.append(fx.LookAgain(self._delay_ms))
