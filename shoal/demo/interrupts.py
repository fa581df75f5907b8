"""Ctrl-C and SIGTERM: one way out of the story, held back where something would stay half made."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
_Handler = Callable[[int, FrameType | None], object] | signal.Handlers


@dataclass
class Interrupts:
    """Whether one came.

    It may surface as another error: code that was in the middle of something wraps what it catches,
    as class creation and C extensions do.
    """

    came: bool = False


@contextmanager
def interruptible() -> Generator[Interrupts]:
    """Inside, Ctrl-C and SIGTERM both raise KeyboardInterrupt."""
    interrupts = Interrupts()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        interrupts.came = True
        raise KeyboardInterrupt

    with _handled_by(interrupt):
        yield interrupts


@contextmanager
def undisturbed() -> Generator[None]:
    """Inside, interrupts do nothing: half a clean-up would leave things behind."""
    with _handled_by(signal.SIG_IGN):
        yield


@contextmanager
def held_interrupts() -> Generator[None]:
    """Interrupts that come inside are handled at the end of the block.

    A signal mask would not do: another thread of the process would take the signal.
    """
    came: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    with _handled_by(remember):
        yield
    for number in came[:1]:
        signal.raise_signal(number)  # whoever handles it outside; nothing when it is ignored


@contextmanager
def _handled_by(handler: _Handler) -> Generator[None]:
    previous = {number: signal.signal(number, handler) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
