"""How an actor's own code ends it, what of it runs last, and calls that were cancelled."""

from __future__ import annotations

import asyncio
import atexit
import threading
from pathlib import Path

import pytest

import shoal
from shoal.exceptions import ActorDiedError, TaskCancelledError
from tests.cluster.remote_code import GATE_DEADLINE_S, Counter, gated
from tests.cluster.waiting import until

pytestmark = pytest.mark.usefixtures("settled")


class Ends:
    """Ends itself in every way there is."""

    def __init__(self, last: str = "", *, at_once: bool = False):
        self.last = last
        if last:
            atexit.register(Path(last + ".atexit").touch)
        if at_once:
            shoal.actor.exit_actor()

    def hello(self):
        return "hello"

    def until_cancelled(self, started: str):
        Path(started).touch()
        context = shoal.get_runtime_context()
        return until(context.is_canceled, "the call is cancelled", GATE_DEADLINE_S)

    def leave(self):
        shoal.actor.exit_actor()

    def leave_but_catch(self):
        try:
            shoal.actor.exit_actor()
        except SystemExit:
            return "still here"

    def leave_from_a_thread(self):
        thread = threading.Thread(target=self.leave, daemon=True)
        thread.start()
        thread.join()
        return "the call itself ends well"

    def __ray_shutdown__(self):
        if self.last:
            Path(self.last + ".shutdown").touch()


class AsyncEnds(Ends):
    async def leave(self):
        shoal.actor.exit_actor()

    async def leave_but_catch(self):
        try:
            shoal.actor.exit_actor()
        except BaseException:  # noqa: BLE001 - what careless user code does
            return "still here"

    async def hello(self):
        return "hello"


KINDS = {
    "sync": (Ends, {}),
    "threaded": (Ends, {"max_concurrency": 2}),
    "async": (AsyncEnds, {}),
}


def made(kind: str, *args, **kwargs):
    class_, options = KINDS[kind]
    return shoal.remote(num_cpus=0, **options)(class_).remote(*args, **kwargs)


def is_over(actor) -> bool:
    try:
        shoal.get(actor.hello.remote(), timeout=20)
    except ActorDiedError:
        return True
    return False


# ---- cancelled calls


@pytest.mark.parametrize("kind", ["sync", "threaded"])
def test_a_cancelled_call_that_runs_raises_although_it_returned(kind, tmp_path):
    actor, started = made(kind), tmp_path / "started"
    looking = actor.until_cancelled.remote(str(started))
    until(started.exists, "the call runs")
    shoal.cancel(looking)
    with pytest.raises(TaskCancelledError):
        shoal.get(looking, timeout=20)
    assert shoal.get(actor.hello.remote(), timeout=20) == "hello"


# ---- exit_actor


@pytest.mark.parametrize("kind", KINDS)
def test_exit_actor_in_the_constructor(kind):
    actor = made(kind, at_once=True)
    with pytest.raises(ActorDiedError, match="exit_actor"):
        shoal.get(actor.hello.remote(), timeout=20)


@pytest.mark.parametrize("kind", KINDS)
def test_code_that_catches_what_exit_actor_raises_does_not_keep_the_actor(kind):
    actor = made(kind)
    with pytest.raises(ActorDiedError, match="exit_actor"):
        shoal.get(actor.leave_but_catch.remote(), timeout=20)
    assert is_over(actor)


@pytest.mark.parametrize("kind", ["sync", "threaded"])
def test_exit_actor_in_a_thread_of_the_actors_own(kind):
    actor = made(kind)
    actor.leave_from_a_thread.remote()
    until(lambda: is_over(actor), "the actor ended")


# ---- what runs last


def _out_of_scope(_actor):
    """The caller's reference goes with this function's argument."""


ENDS = {
    "exit_actor": lambda actor: actor.leave.remote(),
    "__ray_terminate__": lambda actor: actor.__ray_terminate__.remote(),
    "nobody refers to it": _out_of_scope,
}


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("end", ENDS)
def test_exit_handlers_and_ray_shutdown_run_at_an_orderly_end(kind, end, tmp_path):
    last = tmp_path / "last"
    actor = made(kind, str(last))
    assert shoal.get(actor.hello.remote(), timeout=20) == "hello"
    ref = ENDS[end](actor)
    del actor
    for what in ("atexit", "shutdown"):
        until(Path(f"{last}.{what}").exists, f"{what} ran")
    del ref


def test_kill_runs_none_of_the_actors_code(tmp_path):
    last = tmp_path / "last"
    actor = made("sync", str(last))
    assert shoal.get(actor.hello.remote(), timeout=20) == "hello"
    shoal.kill(actor)
    assert is_over(actor)
    assert list(tmp_path.iterdir()) == []


# ---- beginning


def test_the_constructor_of_an_async_actor_runs_inside_its_event_loop():
    @shoal.remote(num_cpus=0)
    class Loops:
        def __init__(self):
            self.loop = asyncio.get_running_loop()
            self.task = self.loop.create_task(self._work())

        async def _work(self):
            return "worked"

        async def result(self):
            return await self.task, asyncio.get_running_loop() is self.loop

    assert shoal.get(Loops.remote().result.remote(), timeout=20) == ("worked", True)


def test_kill_with_no_restart_false_of_an_actor_that_did_not_start_yet(gate):
    waiting = Counter.options(max_restarts=1).remote(gated.remote(gate.path, 5))
    shoal.kill(waiting, no_restart=False)
    gate.open()
    assert shoal.get(waiting.add.remote(), timeout=20) == 6

    no_room = Counter.options(num_cpus=64, max_restarts=1).remote()
    shoal.kill(no_room, no_restart=False)
    assert shoal.wait([no_room.add.remote()], timeout=0)[0] == []
    shoal.kill(no_room)
