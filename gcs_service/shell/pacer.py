"""Turns on the I/O loop: so many streams are served in one pass, the others in the next ones.

A fan-out wakes thousands of streams at once. Served in one pass they would keep every other answer
waiting for a tenth of a second; an answer needs about five passes, so a pass must stay short.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Pacer:
    """Belongs to the loop's thread. Who comes while turns are left passes at once."""

    def __init__(self, turns_per_pass: int) -> None:
        self._turns_per_pass = turns_per_pass
        self._left = turns_per_pass
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    async def turn(self) -> None:
        """Returns when it is the caller's turn, in order of arrival."""
        if self._left and not self._waiting:
            self._left -= 1
            self._schedule()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._schedule()
        await turn

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._is_scheduled = False
        self._left = self._turns_per_pass
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # its stream may have ended meanwhile
                turn.set_result(None)
                self._left -= 1
        if self._left < self._turns_per_pass:
            self._schedule()
