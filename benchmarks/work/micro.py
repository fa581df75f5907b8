"""The microbenchmarks, under the names the field reports them by.

Each row is built when its turn comes and taken down after it, so that idle actors of one row do not
weigh on the next. Remote code is defined inside functions: it travels by value, and a worker
needs no copy of this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.report import Row
from benchmarks.work import actor_calls, timing
from benchmarks.work.library import submodule
from benchmarks.work.plain import Work

BATCH_CALLS = 1000
GROUPS = 100
GROUP_RESOURCE = "custom"
GROUP_WAIT_S = 30
NODE_CPUS = 2
NODE_RESOURCES: dict[str, float] = {GROUP_RESOURCE: 100}


@dataclass(frozen=True)
class Case:
    """One row: how its work is set up, and how many units one call of the work does."""

    name: str
    units: int
    build: Callable[[Any], Work]


def tasks_sync(library: Any) -> Work:
    """One task at a time."""
    small = small_task(library)
    return Work(lambda: library.get(small.remote()))


def tasks_async(library: Any) -> Work:
    """1,000 tasks, then all their values."""
    small = small_task(library)
    return Work(lambda: library.get([small.remote() for _ in range(BATCH_CALLS)]))


def wait_one_by_one(library: Any) -> Work:
    """1,000 tasks, popped one by one as they finish."""
    small = small_task(library)

    def work() -> None:
        waiting = [small.remote() for _ in range(BATCH_CALLS)]
        fetch = True
        for _ in range(BATCH_CALLS):
            _, waiting = library.wait(waiting, fetch_local=fetch)
            fetch = False

    return Work(work)


def get_small(library: Any) -> Work:
    """One small object, read again and again."""
    reference = library.put(0)
    return Work(lambda: library.get(reference))


def put_small(library: Any) -> Work:
    """Small objects, each dropped at once."""
    return Work(lambda: library.put(0))


def groups(library: Any) -> Work:
    """100 groups of one bundle: created, waited for, removed."""
    util = submodule(library, "util")

    def work() -> None:
        made = [util.placement_group([{GROUP_RESOURCE: 0.001}]) for _ in range(GROUPS)]
        if not all(group.wait(GROUP_WAIT_S) for group in made):
            raise RuntimeError(f"a placement group was not ready within {GROUP_WAIT_S} s")
        for group in made:
            util.remove_placement_group(group)

    return Work(work)


def small_task(library: Any) -> Any:
    """A remote function that does nothing."""

    def small_value() -> bytes:
        return b"ok"

    task = library.remote(small_value)
    # The timed calls do not look at the values; these do.
    if library.get([task.remote() for _ in range(BATCH_CALLS)]) != [b"ok"] * BATCH_CALLS:
        raise RuntimeError("a task answered wrongly")
    return task


CASES = (
    Case("single_client_tasks_sync", 1, tasks_sync),
    Case("single_client_tasks_async", BATCH_CALLS, tasks_async),
    Case("single_client_wait_1k_refs", 1, wait_one_by_one),
    Case("1_1_actor_calls_sync", 1, actor_calls.one_at_a_time),
    Case("1_1_actor_calls_async", BATCH_CALLS, actor_calls.batch),
    Case("1_1_actor_calls_concurrent", BATCH_CALLS, actor_calls.batch_threaded),
    Case("1_n_actor_calls_async", 2 * BATCH_CALLS, actor_calls.one_to_two),
    Case("n_n_actor_calls_async", 2 * BATCH_CALLS, actor_calls.two_to_two),
    Case("multi_client_tasks_async", 2 * BATCH_CALLS, actor_calls.two_task_clients),
    Case("1_1_async_actor_calls_sync", 1, actor_calls.async_one_at_a_time),
    Case("1_1_async_actor_calls_async", BATCH_CALLS, actor_calls.async_batch),
    Case("single_client_get_calls", 1, get_small),
    Case("single_client_put_calls", 1, put_small),
    Case("placement_group_create/removal", GROUPS, groups),
)


def measure(library: Any, *, only: str, seconds: float, windows: int) -> Iterator[Row]:
    """The rows whose name contains `only`, each over `windows` windows of `seconds` seconds.

    The library must be connected to a node with `NODE_CPUS` CPUs and `NODE_RESOURCES`.
    """
    for case in CASES:
        if only not in case.name:
            continue
        with case.build(library) as work:
            rate = timing.rate_per_s(work.call, case.units, seconds=seconds, windows=windows)
        yield Row(case.name, rate, "1/s", {"windows": windows, "seconds": seconds})
