"""Waiting for a condition with a deadline: the only way these tests wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
DEADLINE_S = 20.0
LOOK_AGAIN_S = 0.005


def until(condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """The first true value of `condition`; fails with `what` and the last value when it is late."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what} (last seen: {value!r})")
        time.sleep(LOOK_AGAIN_S)


def process_lives(pid: int) -> bool:
    """Whether the pid belongs to a process that is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def until_gone(pids: int | Iterable[int], deadline_s: float = DEADLINE_S) -> None:
    """Wait until none of the processes lives."""
    wanted = [pids] if isinstance(pids, int) else list(pids)
    end = time.monotonic() + deadline_s
    while left := [pid for pid in wanted if process_lives(pid)]:
        if time.monotonic() > end:
            raise AssertionError(
                f"still alive after {deadline_s:g} s: {left} (we are {os.getpid()})"
            )
        time.sleep(LOOK_AGAIN_S)


def lives_on(condition: Callable[[], bool], what: str, window_s: float) -> None:
    """Fails if `condition` stops being true within the window: for what must NOT happen."""
    end = time.monotonic() + window_s
    while time.monotonic() < end:
        assert condition(), what
        time.sleep(LOOK_AGAIN_S)
