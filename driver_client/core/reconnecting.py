"""When to try again to reach an agent, and when to give it up.

A closed port on a host that answers means that the agent's process is gone for good: its node id is
never used again. Twice, since a port may be seen closed while it is being opened.
"""

from __future__ import annotations

from driver_client import limits

_REFUSALS = 2


class Reconnecting:
    """The tries of one session; `now_ms` is monotonic."""

    __slots__ = ("_deadline_ms", "_delay_ms", "_refusals")

    def __init__(self, now_ms: int) -> None:
        self._begin(now_ms, limits.CONNECT_TIMEOUT_S)

    def _begin(self, now_ms: int, seconds: float) -> None:
        self._deadline_ms = now_ms + round(seconds * 1_000)
        self._delay_ms = round(limits.RECONNECT_DELAY_MIN_S * 1_000)
        self._refusals = 0

    @property
    def is_refused(self) -> bool:
        """Whether nobody listens there any more."""
        return self._refusals >= _REFUSALS

    def welcome_broke(self, now_ms: int) -> None:
        """A session that had been opened broke: the tries begin anew."""
        self._begin(now_ms, limits.AGENT_RECONNECT_S)

    def next_try_ms(self, now_ms: int, *, refused: bool) -> int | None:
        """After a try that failed: how long to wait for the next one; None: the agent is given up.

        Args:
            now_ms: when the connection broke.
            refused: what a dial of the port found since.
        """
        self._refusals = self._refusals + 1 if refused else 0
        if self.is_refused or now_ms >= self._deadline_ms:
            return None
        delay_ms = self._delay_ms
        self._delay_ms = min(delay_ms * 2, round(limits.RECONNECT_DELAY_MAX_S * 1_000))
        return delay_ms
