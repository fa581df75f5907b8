"""How long actors take: from the first creation until each answered, and back after a death."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks import processes
from benchmarks.report import Row

RESTART_DEADLINE_S = 60.0
RETRY_PAUSE_S = 0.0005


def pinger_class(library: Any) -> Any:
    """A remote class that tells its pid and can end its own process."""

    class Pinger:
        def pid(self) -> int:
            import os

            return os.getpid()

        def die(self) -> None:
            import os

            os._exit(1)

    return library.remote(num_cpus=0)(Pinger)


def first_answers_s(library: Any, count: int) -> tuple[float, list[Any], list[int]]:
    """Start `count` actors: seconds until each answered one call, the handles, their pids."""
    pinger = pinger_class(library)
    start = time.perf_counter()
    actors = [pinger.remote() for _ in range(count)]
    pids: list[int] = library.get([actor.pid.remote() for actor in actors])
    elapsed = time.perf_counter() - start
    if len(set(pids)) != count:
        raise RuntimeError(f"{count} actors answered from {len(set(pids))} processes")
    return elapsed, actors, pids


def kill_all(library: Any, actors: list[Any], pids: list[int]) -> None:
    """Kill actors and wait until their processes are gone and the node is quiet again."""
    for actor in actors:
        library.kill(actor)
    if not processes.wait_gone(pids):
        raise RuntimeError("killed actors left processes behind")
    processes.settle()


def start_rows(library: Any, *, count: int, warm: bool, rounds: int) -> Iterator[Row]:
    """`count` actors at once, then one; the library must be connected to a node just started.

    A cold figure comes from the first round after the start, so it has one round; a warm one comes
    from `rounds` rounds after it.
    """
    elapsed, actors, pids = first_answers_s(library, count)
    if not warm:
        yield Row("actors_first_answer_s", elapsed, "s", {"count": count, "pool": "cold"})
    kill_all(library, actors, pids)
    if warm:
        for _ in range(rounds):
            elapsed, actors, pids = first_answers_s(library, count)
            yield Row("actors_first_answer_s", elapsed, "s", {"count": count, "pool": "warm"})
            kill_all(library, actors, pids)
    for _ in range(rounds):
        elapsed, actors, pids = first_answers_s(library, 1)
        yield Row("actor_first_answer_s", elapsed, "s", {"count": 1})
        kill_all(library, actors, pids)


def restart_rows(library: Any, *, rounds: int) -> Iterator[Row]:
    """From an actor ending its own process to the first call that succeeds again."""
    pinger = pinger_class(library).options(max_restarts=1)
    for _ in range(rounds):
        actor = pinger.remote()
        old_pid: int = library.get(actor.pid.remote())
        start = time.perf_counter()
        actor.die.remote()
        new_pid = _first_success(library, actor, old_pid, start + RESTART_DEADLINE_S)
        elapsed = time.perf_counter() - start
        yield Row("actor_restart_s", elapsed, "s", {"caller": "retry loop"})
        kill_all(library, [actor], [new_pid])


def _first_success(library: Any, actor: Any, old_pid: int, deadline: float) -> int:
    while time.perf_counter() < deadline:
        try:
            pid: int = library.get(actor.pid.remote(), timeout=RESTART_DEADLINE_S)
        except library.exceptions.RayActorError:
            time.sleep(RETRY_PAUSE_S)  # The caller's own retry, part of the measured scenario.
            continue
        if pid != old_pid:
            return pid
    raise RuntimeError(f"the actor did not answer again within {RESTART_DEADLINE_S:g} s")
