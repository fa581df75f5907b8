"""Requests that a scheduler sent to a node, numbered: a view says exactly which it contains.

The scheduler counts what it sends to each node; the request carries the number; the node's
snapshots say which numbers came. So a deduction ends with the first snapshot that was made after
the request came there, however late that snapshot is, and with no other.
"""

from __future__ import annotations

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from raylet_agent import limits


class _Seen:
    """Numbers of one scheduler: all up to one, and some above it with the time they came."""

    __slots__ = ("all_up_to", "also", "newest_ms")

    def __init__(self) -> None:
        self.all_up_to = 0
        self.also: dict[int, int] = {}
        self.newest_ms = 0

    def came(self, number: int, now_ms: int) -> None:
        self.newest_ms = now_ms
        if number <= self.all_up_to:
            return
        self.also[number] = now_ms
        while self.all_up_to + 1 in self.also:
            self.all_up_to += 1
            del self.also[self.all_up_to]

    def skip(self, now_ms: int) -> None:
        """Numbers below one that came long ago are not waited for: their deductions are over."""
        before_ms = now_ms - limits.DEDUCTION_MS
        old = [number for number, came_ms in self.also.items() if came_ms <= before_ms]
        if not old:
            return
        self.all_up_to = max(old)
        self.also = {number: ms for number, ms in self.also.items() if number > self.all_up_to}


class SendingsSeen:
    """The receiver's side."""

    def __init__(self) -> None:
        self._schedulers: dict[bytes, _Seen] = {}

    def came(self, sending: a.Sending, now_ms: int) -> None:
        """A request is here; whatever becomes of it is in every snapshot from now on."""
        seen = self._schedulers.pop(sending.scheduler_id, None) or _Seen()
        if len(self._schedulers) >= limits.SCHEDULERS_NAMED_MAX:
            del self._schedulers[next(iter(self._schedulers))]
        self._schedulers[sending.scheduler_id] = seen
        seen.came(sending.number, now_ms)

    def named(self, now_ms: int) -> list[n.SendingsSeen]:
        """For a snapshot of this moment."""
        before_ms = now_ms - limits.DEDUCTION_MS
        rows: list[n.SendingsSeen] = []
        for scheduler_id, seen in self._schedulers.items():
            if seen.newest_ms <= before_ms:
                continue  # none of its deductions is left
            seen.skip(now_ms)
            # Too many: the oldest are named. What is not named stays deducted until its time is up.
            also = list(seen.also)[: limits.SENDINGS_NAMED_MAX]
            rows.append(
                n.SendingsSeen(scheduler_id=scheduler_id, all_up_to=seen.all_up_to, also=also)
            )
        return rows


def is_seen(seen: n.SendingsSeen | None, number: int) -> bool:
    """Whether a snapshot contains what became of the request with this number."""
    return seen is not None and (number <= seen.all_up_to or number in seen.also)
