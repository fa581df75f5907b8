"""Ctrl-C and SIGTERM: one way out of the story, held back where something would stay half made."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
_Handler = Callable[[int, FrameType | None], object] | signal.Handlers


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def interruptible() -> Generator[None]:
    """Inside, Ctrl-C and SIGTERM both raise KeyboardInterrupt."""
    with _handled_by(_interrupt):
        yield


@contextmanager
def undisturbed() -> Generator[None]:
    """Inside, interrupts do nothing: half a clean-up would leave things behind."""
    with _handled_by(signal.SIG_IGN):
        yield


@contextmanager
def held_interrupts() -> Generator[None]:
    """Interrupts that come inside are raised at the end of the block.

    A signal mask would not do: another thread of the process would take the signal.
    """
    came: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    with _handled_by(remember):
        yield
    if came:
        raise KeyboardInterrupt


@contextmanager
def _handled_by(handler: _Handler) -> Generator[None]:
    previous = {number: signal.signal(number, handler) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
