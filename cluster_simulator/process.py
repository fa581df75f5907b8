"""What every simulated process has: a name, a life, one thread, one timer, and a way to die."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster_simulator.link import Link

if TYPE_CHECKING:
    from cluster_simulator.world import World


class Process:
    """Base of GCS, agent and owner. Events wait while the thread is busy, in order."""

    def __init__(self, world: World, name: str, address: str) -> None:
        self.world = world
        self.heap = world.heap
        self.network = world.network
        self.name = name
        self.address = address
        self.alive = True
        self._busy_until_us = 0
        self._armed_us: int | None = None
        self._effects_left: int | None = None

    def link_accepted(self, link: Link) -> None:
        """Somebody dialled."""

    def link_frame(self, link: Link, items: list[Any]) -> None:
        """Items arrived."""

    def link_closed(self, link: Link, *, refused: bool) -> None:
        """A stream is over."""

    # ---- one thread

    def work(self, cost_us: int, call: Callable[..., object], *args: Any) -> None:
        """Runs `call` when the thread has time for it; it is busy for `cost_us` before that."""
        self._busy_until_us = max(self._busy_until_us, self.heap.now_us) + cost_us
        self.heap.at(self._busy_until_us, self._run, call, args)

    def later(self, delay_us: int, call: Callable[..., object], *args: Any) -> None:
        """Calls after a delay if the process still lives."""
        self.heap.after(delay_us, self._run, call, args)

    def _run(self, call: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.alive:
            call(*args)

    # ---- one timer

    def arm(self, due_ms: int | None) -> None:
        """Makes sure that `timer_due` comes at `due_ms`; an earlier one looks again."""
        if due_ms is None:
            return
        due_us = max(due_ms * 1_000, self.heap.now_us)
        if self._armed_us is not None and self._armed_us <= due_us:
            return
        self._armed_us = due_us
        self.heap.at(due_us, self._timer, due_us)

    def _timer(self, due_us: int) -> None:
        if self.alive and self._armed_us == due_us:
            self._armed_us = None
            self.timer_due()

    def timer_due(self) -> None:
        """The armed time has come."""

    # ---- death

    def crash_after(self, effects: int) -> None:
        """Dies between two of its next effects."""
        self._effects_left = effects

    def may_act(self) -> bool:
        """Asked before each effect. False: it died just now, between two of them."""
        if not self.alive:
            return False
        if self._effects_left is not None:
            self._effects_left -= 1
            if self._effects_left < 0:
                self._effects_left = None
                self.crash()
        return self.alive

    def crash(self) -> None:
        """SIGKILL."""
        if self.alive:
            self.alive = False
            if self.world.story.is_on:
                self.world.story.note(f"{self.name} crashed")
            self.network.crashed(self)
            self.gone()

    def gone(self) -> None:
        """What else ends with the process."""
