"""When workers end by themselves, and what an actor that ends owes its callers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from pathlib import Path

import pytest

import shoal
from tests.cluster.remote_code import GATE_DEADLINE_S, gated, pass_gate
from tests.cluster.waiting import until, until_gone

pytestmark = pytest.mark.usefixtures("settled")


def test_a_worker_ends_after_max_calls_of_the_function():
    own_pid = shoal.remote(os.getpid).options(max_calls=2)
    pids = shoal.get([own_pid.remote() for _ in range(9)])
    assert max(Counter(pids).values()) <= 2
    until_gone([pid for pid, count in Counter(pids).items() if count == 2])


def test_a_call_that_raises_counts_and_its_retry_runs_elsewhere(tmp_path):
    path = tmp_path / "pids"

    @shoal.remote(max_calls=1, max_retries=2, retry_exceptions=True)
    def third_time() -> list[str]:
        with path.open("a+") as file:
            file.write(f"{os.getpid()}\n")
            file.seek(0)
            seen = file.read().split()
        if len(seen) < 3:
            raise ValueError("not yet")
        return seen

    assert len(set(shoal.get(third_time.remote()))) == 3


class Ending:
    def __init__(self, path: str) -> None:
        self.path = path

    async def linger(self) -> None:
        try:
            await asyncio.sleep(GATE_DEADLINE_S)
        finally:
            Path(self.path).touch()  # noqa: ASYNC240 - one file, in a test

    async def hello(self) -> str:
        return "hello"

    async def leave(self) -> None:
        shoal.actor.exit_actor()


def test_an_async_actor_that_exits_cancels_its_coroutines(tmp_path):
    cleaned = tmp_path / "cleaned"
    actor = shoal.remote(num_cpus=0)(Ending).remote(str(cleaned))
    lingering = actor.linger.remote()
    assert shoal.get(actor.hello.remote()) == "hello"
    actor.leave.remote()
    with pytest.raises(shoal.exceptions.ActorDiedError) as caught:
        shoal.get(lingering, timeout=20)
    assert caught.value.cause.name == "EXITED"
    assert cleaned.exists()


def test_threads_of_an_actor_that_exits_may_finish(gate):
    @shoal.remote(num_cpus=0, max_concurrency=2)
    class Threads:
        def __init__(self) -> None:
            self.inside = threading.Event()

        def hold(self, path: str) -> str:
            self.inside.set()
            pass_gate(path)
            return "finished"

        def leave(self) -> None:
            assert self.inside.wait(GATE_DEADLINE_S)
            shoal.actor.exit_actor()

    actor = Threads.remote()
    held = actor.hold.remote(gate.path)
    with pytest.raises(shoal.exceptions.ActorDiedError, match=r"exit_actor\(\) was called"):
        shoal.get(actor.leave.remote())
    gate.open()
    assert shoal.get(held, timeout=20) == "finished"


def test_calls_with_late_arguments_are_overtaken_only_if_that_is_allowed(gate):
    class Echo:
        def echo(self, value: object) -> object:
            return value

    free = shoal.remote(num_cpus=0, allow_out_of_order_execution=True)(Echo).remote()
    strict = shoal.remote(num_cpus=0)(Echo).remote()
    late = [actor.echo.remote(gated.remote(gate.path, "late")) for actor in (free, strict)]
    early = [actor.echo.remote("early") for actor in (free, strict)]
    assert shoal.get(early[0], timeout=20) == "early"
    assert shoal.wait([early[1], *late], timeout=0)[0] == []
    gate.open()
    assert shoal.get([*late, early[1]], timeout=20) == ["late", "late", "early"]


def test_a_method_sees_that_it_was_cancelled_and_one_that_waits_never_runs(tmp_path):
    path, started, saw = tmp_path / "ran", tmp_path / "started", tmp_path / "saw"

    @shoal.remote(num_cpus=0, max_concurrency=1, concurrency_groups={"work": 1})
    class Looks:
        @shoal.method(concurrency_group="work")
        def until_cancelled(self) -> bool:
            started.touch()
            context = shoal.get_runtime_context()
            until(context.is_canceled, "the call is cancelled", GATE_DEADLINE_S)
            saw.touch()
            return True

        @shoal.method(concurrency_group="work")
        def touch(self) -> None:
            path.touch()

        def hello(self) -> str:
            return "hello"

    actor = Looks.remote()
    looking, waiting = actor.until_cancelled.remote(), actor.touch.remote()
    assert shoal.get(actor.hello.remote()) == "hello"
    until(started.exists, "the first call runs")
    shoal.cancel(waiting)
    with pytest.raises(shoal.exceptions.TaskCancelledError):
        shoal.get(waiting, timeout=20)
    shoal.cancel(looking)
    with pytest.raises(shoal.exceptions.TaskCancelledError):
        shoal.get(looking, timeout=20)
    assert saw.exists()
    assert not path.exists()


def test_a_group_the_class_does_not_have_is_refused_where_the_actor_is_made():
    @shoal.remote(num_cpus=0, concurrency_groups={"io": 1})
    class Wrong:
        @shoal.method(concurrency_group="oi")
        def call(self) -> None: ...

    with pytest.raises(ValueError, match="'oi'"):
        Wrong.remote()
