"""Full garbage collections wait while very many actors start.

A full collection looks at everything that lives. Each actor of this process is some hundred objects
that stay, so while thousands are being started the same objects are looked at again and again: that
took a third of the time of starting 8,000. Young objects are collected as always, so only cycles
that were old already wait, and not longer than a named time.
"""

from __future__ import annotations

import asyncio
import gc

from driver_client import limits

_NEVER = 1_000_000_000


class FullCollections:
    """Counts actors that are being started. I/O thread only."""

    def __init__(self) -> None:
        self._starting: set[bytes] = set()
        self._before: tuple[int, int, int] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def note(self, actor_id: bytes, *, starting: bool) -> None:
        """An actor is being started, or is not any more."""
        if not starting:
            self._starting.discard(actor_id)
            if self._before is not None and len(self._starting) < limits.ACTORS_STARTING_FEW:
                self.resume()
            return
        self._starting.add(actor_id)
        if self._before is None and len(self._starting) == limits.ACTORS_STARTING_MANY:
            self._pause()

    def _pause(self) -> None:
        self._before = gc.get_threshold()
        gc.set_threshold(self._before[0], self._before[1], _NEVER)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(limits.FULL_COLLECTIONS_WAIT_S, self.resume)

    def resume(self) -> None:
        """From now on as before. Idempotent."""
        before, self._before = self._before, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if before is not None and gc.get_threshold()[2] == _NEVER:  # else the user set another
            gc.set_threshold(*before)
