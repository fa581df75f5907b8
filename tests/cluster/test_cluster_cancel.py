"""`cancel`: queued, waiting, running, recursive, forced; tasks and actor calls."""

from __future__ import annotations

import pytest

import shoal
from shoal.exceptions import TaskCancelledError, WorkerCrashedError
from tests.cluster.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("local")]


@shoal.remote
def forever(started: str) -> None:
    import time
    from pathlib import Path

    Path(started).touch()
    while True:
        time.sleep(0.005)


def running(tmp_path, name: str = "started"):
    ref = forever.remote(str(tmp_path / name))
    until((tmp_path / name).exists, f"{name} runs")
    return ref


def test_a_running_task_is_interrupted_and_its_cpu_is_free(tmp_path):
    ref = running(tmp_path)
    shoal.cancel(ref)
    with pytest.raises(TaskCancelledError):
        shoal.get(ref, timeout=20)
    whole = shoal.cluster_resources()["CPU"]
    until(lambda: shoal.available_resources().get("CPU") == whole, "the CPU is free")


def test_a_task_that_waits_for_a_worker_or_for_an_argument_never_runs(tmp_path):
    cpus = int(shoal.cluster_resources()["CPU"])
    busy = [running(tmp_path, f"busy-{number}") for number in range(cpus)]
    waiting = forever.remote(str(tmp_path / "never"))

    @shoal.remote
    def after(value: object) -> object:
        return value

    dependent = after.remote(busy[0])
    for ref in (waiting, dependent):
        shoal.cancel(ref)
        with pytest.raises(TaskCancelledError):
            shoal.get(ref, timeout=20)
    for ref in busy:
        shoal.cancel(ref)
        with pytest.raises(TaskCancelledError):
            shoal.get(ref, timeout=20)
    assert not (tmp_path / "never").exists()


def test_force_kills_the_worker_and_does_not_retry(tmp_path):
    ref = running(tmp_path)
    shoal.cancel(ref, force=True)
    with pytest.raises(WorkerCrashedError):
        shoal.get(ref, timeout=20)


def test_what_a_cancelled_task_submitted_is_cancelled_too(tmp_path):
    @shoal.remote
    def parent(started: str) -> object:
        return shoal.get(forever.remote(started))

    ref = parent.remote(str(tmp_path / "child"))
    until((tmp_path / "child").exists, "the child runs")
    shoal.cancel(ref)
    with pytest.raises(TaskCancelledError):
        shoal.get(ref, timeout=20)
    whole = shoal.cluster_resources()["CPU"]
    until(lambda: shoal.available_resources().get("CPU") == whole, "parent and child are gone")


@shoal.remote
class Sleeper:
    async def sleep(self) -> None:
        import asyncio

        await asyncio.Event().wait()

    async def wake(self) -> str:
        return "awake"


def test_a_coroutine_of_an_actor_is_cancelled_and_the_actor_lives():
    sleeper = Sleeper.remote()
    ref = sleeper.sleep.remote()
    assert shoal.get(sleeper.wake.remote(), timeout=20) == "awake"
    shoal.cancel(ref)
    with pytest.raises(TaskCancelledError):
        shoal.get(ref, timeout=20)
    assert shoal.get(sleeper.wake.remote(), timeout=20) == "awake"


def test_wrong_arguments_are_refused_and_a_finished_call_is_left_alone():
    with pytest.raises(TypeError, match="ObjectRef"):
        shoal.cancel("no reference")
    sleeper = Sleeper.remote()
    ref = sleeper.wake.remote()
    with pytest.raises(ValueError, match="force"):
        shoal.cancel(ref, force=True)
    assert shoal.get(ref, timeout=20) == "awake"
    shoal.cancel(ref)
    assert shoal.get(ref, timeout=20) == "awake"
