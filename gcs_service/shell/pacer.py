"""Turns on the I/O loop: so many writes of all streams at once, the others when those are done.

A fan-out wakes thousands of streams. Were all to write in one pass of the loop, every other
answer would wait for a tenth of a second; and gRPC reports the ends of writes in bunches, so those
that are under way at the same moment come back in one pass too.
"""

from __future__ import annotations

import asyncio
from collections import deque

from gcs_service import limits


class Pacer:
    """Belongs to the loop's thread.

    A write that does not end (its peer reads nothing) loses its place after `WRITE_SLOW_MS`: it
    waits by itself and keeps nobody else waiting.
    """

    def __init__(self) -> None:
        self._under_way: dict[object, float] = {}
        self._waiting: deque[tuple[object, asyncio.Future[None]]] = deque()
        self._taken = 0
        self._is_scheduled = False
        self._later: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    async def enter(self, stream: object) -> None:
        """Returns when `stream` may write, in order of arrival; `leave` follows in any case."""
        if not self._waiting and self._has_place():
            self._take(stream)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((stream, turn))
        self._schedule()
        await turn

    def leave(self, stream: object) -> None:
        """Its write ended, or the stream did."""
        self._under_way.pop(stream, None)
        if self._waiting:
            self._schedule()

    def _has_place(self) -> bool:
        few = limits.STREAM_WRITES_FEW
        per_pass, under_way = limits.STREAM_WRITES_PER_PASS, limits.STREAM_WRITES_UNDER_WAY
        if len(self._waiting) <= few:  # the nodes of one group, say: done in a pass or two
            per_pass = under_way = few
        return self._taken < per_pass and len(self._under_way) < under_way

    def _take(self, stream: object) -> None:
        self._taken += 1
        self._under_way[stream] = asyncio.get_running_loop().time()
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._is_scheduled = False
        self._taken = 0
        while self._waiting and self._has_place():
            stream, turn = self._waiting.popleft()
            if not turn.done():  # its stream may have ended meanwhile
                turn.set_result(None)
                self._take(stream)
        if self._waiting and self._later is None:
            delay = limits.WRITE_SLOW_MS / 1_000
            self._later = asyncio.get_running_loop().call_later(delay, self._give_places_away)

    def _give_places_away(self) -> None:
        self._later = None
        too_old = asyncio.get_running_loop().time() - limits.WRITE_SLOW_MS / 1_000
        slow = [stream for stream, since in self._under_way.items() if since <= too_old]
        for stream in slow:
            del self._under_way[stream]
        if self._waiting:
            self._schedule()
