"""How a rate is taken: warm up, then several timed windows, and the median of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

WARM_UP_SHARE = 0.5
CALLS_PER_CLOCK_READ = 10


def rate_per_s(work: Callable[[], object], units: int, *, seconds: float, windows: int) -> float:
    """Units of work per second, where one call of `work` does `units` of them.

    Cheap calls are timed in blocks of a tenth of the window, so that reading the clock does not
    become part of what is measured.
    """
    calls = _warm_up(work, seconds * WARM_UP_SHARE)
    block = calls // CALLS_PER_CLOCK_READ + 1
    return statistics.median(
        units * _calls_per_s(work, block=block, seconds=seconds) for _ in range(windows)
    )


def _warm_up(work: Callable[[], object], seconds: float) -> int:
    deadline = time.perf_counter() + seconds
    calls = 0
    while time.perf_counter() < deadline or calls == 0:
        work()
        calls += 1
    return calls


def _calls_per_s(work: Callable[[], object], *, block: int, seconds: float) -> float:
    start = time.perf_counter()
    calls = 0
    while (elapsed := time.perf_counter() - start) < seconds or calls == 0:
        for _ in range(block):
            work()
        calls += block
    return calls / elapsed
