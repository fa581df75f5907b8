"""What an owner leaves behind when it dies: nothing, except what was detached."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from textwrap import dedent

import pytest

import shoal
from shoal.cluster_utils import Cluster
from tests.cluster.drivers import run_driver, started_driver
from tests.cluster.remote_code import Counter, pass_gate
from tests.cluster.waiting import lives_on, process_lives, until, until_gone

COUNTER = """
    import os, time, shoal
    shoal.init(namespace="tests", log_to_driver=False)

    @shoal.remote(num_cpus=0)
    class Counter:
        def __init__(self):
            self.value = 0
        def add(self):
            self.value += 1
            return self.value
        def pid(self):
            return os.getpid()
"""


@pytest.fixture(scope="module")
def cluster(one_node) -> Iterator[Cluster]:
    yield one_node


STAY = "while True: time.sleep(60)"


def program(rest: str, end: str = "") -> str:
    return dedent(COUNTER) + dedent(rest) + end


@shoal.remote(num_cpus=0)
class Family:
    """An actor that owns a chain of `levels` further ones."""

    def __init__(self, levels: int) -> None:
        self.child = Family.remote(levels - 1) if levels else None

    def pids(self) -> list[int]:
        below = shoal.get(self.child.pids.remote()) if self.child is not None else []
        return [os.getpid(), *below]


def test_actors_and_tasks_of_a_killed_driver_end(cluster):
    text = """
        counter = Counter.remote()
        print(shoal.get(counter.pid.remote()))
        @shoal.remote(num_cpus=1)
        class Sleeper:
            def pid(self):
                return os.getpid()
        sleeper = Sleeper.remote()
        print(shoal.get(sleeper.pid.remote()))
    """
    with started_driver(program(text, STAY), cluster.address) as driver:
        pids = [int(driver.line()) for _ in range(2)]
        assert all(process_lives(pid) for pid in pids)
        driver.kill()
        until_gone(pids)
    until(lambda: shoal.available_resources().get("CPU") == 4, "the dead driver's CPU is free")


def test_actors_of_a_driver_that_ends_in_order_end(cluster):
    text = """
        counter = Counter.remote()
        print(shoal.get(counter.pid.remote()))
    """
    done = run_driver(program(text), cluster.address)
    assert done.returncode == 0, done.stderr
    until_gone(int(done.stdout))


def test_a_name_is_free_after_its_owner_died(cluster):
    text = """
        counter = Counter.options(name="orphan").remote()
        print(shoal.get(counter.pid.remote()))
    """
    with started_driver(program(text, STAY), cluster.address) as driver:
        pid = int(driver.line())
        assert shoal.get(shoal.get_actor("orphan").pid.remote()) == pid
        driver.kill()
        until_gone(pid)
    counter = until(take_orphan_name, "the name of the dead driver's actor is free")
    shoal.kill(counter)


def take_orphan_name() -> object | None:
    try:
        return Counter.options(name="orphan").remote()
    except ValueError:
        return None


def test_children_of_a_killed_actor_end_with_it(cluster):
    @shoal.remote(num_cpus=0)
    class Parent:
        def __init__(self) -> None:
            self.children = [Counter.remote() for _ in range(3)]

        def pids(self) -> list[int]:
            return shoal.get([child.pid.remote() for child in self.children])

    parent = Parent.remote()
    pids = shoal.get(parent.pids.remote())
    shoal.kill(parent)
    until_gone(pids)


def test_a_whole_family_ends_when_the_grandparent_is_killed_from_outside(cluster):
    root = Family.remote(3)
    pids = shoal.get(root.pids.remote())
    assert len(set(pids)) == 4
    os.kill(pids[0], signal.SIGKILL)
    until_gone(pids)


def test_a_task_of_a_dead_actor_is_ended(cluster, gate, tmp_path):
    @shoal.remote(num_cpus=0)
    def linger(pid_file: str, path: str) -> None:
        from pathlib import Path

        Path(pid_file).write_text(str(os.getpid()), encoding="ascii")
        Path(pid_file).rename(pid_file + ".done")
        pass_gate(path)

    @shoal.remote(num_cpus=0)
    class Starter:
        def start(self, pid_file: str, path: str) -> None:
            self.reference = linger.remote(pid_file, path)

    starter = Starter.remote()
    shoal.get(starter.start.remote(str(tmp_path / "pid"), gate.path))
    until((tmp_path / "pid.done").exists, "the task runs")
    pid = int((tmp_path / "pid.done").read_text())
    shoal.kill(starter)
    until_gone(pid)


def test_a_detached_actor_survives_its_driver(cluster):
    text = """
        counter = Counter.options(name="stays", lifetime="detached").remote()
        print(shoal.get(counter.pid.remote()), shoal.get(counter.add.remote()))
    """
    with started_driver(program(text, STAY), cluster.address) as driver:
        pid = int(driver.line().split()[0])
        driver.kill()
    lives_on(lambda: process_lives(pid), "the detached actor died with its driver", 0.5)
    counter = shoal.get_actor("stays")
    assert shoal.get(counter.add.remote()) == 2
    shoal.kill(counter)
    until_gone(pid)


def test_a_detached_actor_restarts_without_its_driver(cluster):
    text = """
        counter = Counter.options(
            name="returns", lifetime="detached", max_restarts=1, max_task_retries=-1
        ).remote()
        print(shoal.get(counter.pid.remote()))
    """
    done = run_driver(program(text), cluster.address)
    assert done.returncode == 0, done.stderr
    pid = int(done.stdout)
    os.kill(pid, signal.SIGKILL)
    until_gone(pid)
    counter = shoal.get_actor("returns")
    again = until(lambda: answer(counter), "an answer after the restart")
    assert again != pid
    shoal.kill(counter)
    until_gone(again)


def answer(counter: object) -> int | None:
    try:
        return shoal.get(counter.pid.remote(), timeout=20)
    except shoal.exceptions.RayActorError:
        return None


def test_a_killed_detached_actor_frees_its_name_at_once(cluster):
    for number in range(5):
        counter = Counter.options(name="detached again", lifetime="detached").remote(number)
        assert shoal.get(counter.add.remote()) == number + 1
        shoal.kill(counter)


def test_a_detached_actor_that_nobody_holds_lives_on(cluster):
    counter = Counter.options(name="alone", lifetime="detached").remote()
    pid = shoal.get(counter.pid.remote())
    del counter
    lives_on(lambda: process_lives(pid), "the detached actor ended without handles", 0.3)
    shoal.kill(shoal.get_actor("alone"))
    until_gone(pid)
