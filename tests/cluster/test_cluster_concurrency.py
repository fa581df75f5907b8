"""Actors with several lanes: concurrency groups, order inside them, async and threads together."""

from __future__ import annotations

import asyncio
import threading

import pytest

import shoal
from tests.cluster.remote_code import GATE_DEADLINE_S, pass_gate

pytestmark = pytest.mark.usefixtures("one_node")


@shoal.remote(num_cpus=0, concurrency_groups={"io": 2, "compute": 1})
class Lanes:
    def __init__(self) -> None:
        self.pair = threading.Barrier(2)

    @shoal.method(concurrency_group="io")
    def meet(self) -> int:
        return self.pair.wait(timeout=GATE_DEADLINE_S)

    @shoal.method(concurrency_group="compute")
    def hold(self, path: str) -> str:
        pass_gate(path)
        return "held"

    def default_lane(self) -> str:
        return threading.current_thread().name


@shoal.remote(num_cpus=0)
class Waiter:
    """An async actor: one call lets the others go."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def wait_for_it(self) -> str:
        await asyncio.wait_for(self.event.wait(), GATE_DEADLINE_S)
        return "released"

    async def release(self) -> None:
        self.event.set()


def test_a_group_runs_as_many_calls_as_it_says_beside_a_busy_one(gate):
    lanes = Lanes.remote()
    held = lanes.hold.remote(gate.path)
    assert sorted(shoal.get([lanes.meet.remote(), lanes.meet.remote()])) == [0, 1]
    assert shoal.get(lanes.default_lane.remote())
    assert shoal.wait([held], timeout=0) == ([], [held])
    gate.open()
    assert shoal.get(held) == "held"


def test_the_lane_can_be_chosen_at_the_call(gate):
    lanes = Lanes.remote()
    held = lanes.hold.remote(gate.path)
    other = lanes.default_lane.options(concurrency_group="io").remote()
    assert shoal.get(other)
    gate.open()
    shoal.get(held)


def test_a_lane_that_does_not_exist_is_refused_by_name():
    with pytest.raises((ValueError, shoal.exceptions.RayError), match="fast"):
        shoal.get(Lanes.remote().default_lane.options(concurrency_group="fast").remote())


def test_coroutines_wait_for_each_other():
    waiter = Waiter.remote()
    waiting = [waiter.wait_for_it.remote() for _ in range(100)]
    assert shoal.wait(waiting, timeout=0) == ([], waiting)
    waiter.release.remote()
    assert shoal.get(waiting) == ["released"] * 100


def test_coroutines_never_exceed_the_stated_concurrency():
    @shoal.remote(num_cpus=0, max_concurrency=3)
    class Counted:
        def __init__(self) -> None:
            self.inside = self.most = 0

        async def visit(self) -> None:
            self.inside += 1
            self.most = max(self.most, self.inside)
            for _ in range(5):
                await asyncio.sleep(0)
            self.inside -= 1

        async def seen(self) -> int:
            return self.most

    counted = Counted.remote()
    shoal.get([counted.visit.remote() for _ in range(50)])
    assert shoal.get(counted.seen.remote()) == 3


def test_a_coroutine_can_await_other_actors_and_tasks():
    @shoal.remote(num_cpus=0)
    class Asker:
        async def ask(self, other: object) -> list[object]:
            return [await shoal.remote(lambda: "task").remote(), await other.default_lane.remote()]

    task, lane = shoal.get(Asker.remote().ask.remote(Lanes.remote()))
    assert task == "task"
    assert lane
