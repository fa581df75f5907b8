"""Drivers side by side: shared names, handles and values that cross over, and their deaths."""

from __future__ import annotations

import pytest

import shoal
from shoal.exceptions import OwnerDiedError, RayActorError
from tests.cluster.drivers import run_driver, started_driver
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import until_gone

START = """
import os, time, shoal
shoal.init(namespace="tests", log_to_driver=False)
"""
STAY = """
while True:
    time.sleep(60)
"""


@shoal.remote(num_cpus=0)
class Box:
    """Keeps what it is given, references as references."""

    def __init__(self) -> None:
        self.content: list[object] = []

    def put(self, content: list[object]) -> None:
        self.content = content

    def take(self) -> list[object]:
        return self.content


def test_drivers_that_ask_for_the_same_name_at_once_get_one_actor(one_node):
    program = (
        START
        + """
@shoal.remote(num_cpus=0)
class Shared:
    def pid(self):
        return os.getpid()
shared = Shared.options(name="shared", lifetime="detached", get_if_exists=True).remote()
print(shoal.get(shared.pid.remote()))
"""
    )
    with (
        started_driver(program, one_node.address) as first,
        started_driver(program, one_node.address) as second,
        started_driver(program, one_node.address) as third,
    ):
        pids = {driver.line() for driver in (first, second, third)}
        for driver in (first, second, third):
            assert driver.process.wait(20) == 0
    assert len(pids) == 1
    shoal.kill(shoal.get_actor("shared"))
    until_gone(int(pids.pop()))


def test_namespaces_of_drivers_are_their_own(one_node):
    counter = Counter.options(name="mine").remote(5)
    shoal.get(counter.add.remote())
    program = """
import shoal
shoal.init(log_to_driver=False)
try:
    shoal.get_actor("mine")
except ValueError as error:
    print("unknown:", error)
mine = shoal.get_actor("mine", namespace="tests")
print(shoal.get(mine.add.remote()))
"""
    done = run_driver(program, one_node.address)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("unknown:")
    assert done.stdout.endswith("\n7\n")
    shoal.kill(counter)


def test_a_call_through_a_handle_that_is_dropped_at_once_is_answered(one_node):
    counter = Counter.options(name="passing").remote(5)
    shoal.get(counter.add.remote())
    program = (
        START
        + """
print(shoal.get(shoal.get_actor("passing").add.remote(), timeout=10))
"""
    )
    done = run_driver(program, one_node.address)
    assert done.stdout == "7\n", done.stderr
    shoal.kill(counter)


def test_an_actor_of_another_driver_can_be_called_and_dies_with_its_owner(one_node):
    program = (
        START
        + """
@shoal.remote(num_cpus=0)
class Theirs:
    def pid(self):
        return os.getpid()
theirs = Theirs.options(name="theirs", max_restarts=5).remote()
print(shoal.get(theirs.pid.remote()))
"""
        + STAY
    )
    with started_driver(program, one_node.address) as driver:
        pid = int(driver.line())
        theirs = shoal.get_actor("theirs")
        assert shoal.get(theirs.pid.remote()) == pid
        driver.kill()
    until_gone(pid)
    with pytest.raises(RayActorError):
        shoal.get(theirs.pid.remote(), timeout=20)


def test_a_value_is_lost_with_its_owner_and_says_so(one_node):
    box = Box.options(name="box").remote()
    shoal.get(box.take.remote())
    program = (
        START
        + """
box = shoal.get_actor("box")
shoal.get(box.put.remote([shoal.put("treasure")]))
print("stored")
"""
        + STAY
    )
    with started_driver(program, one_node.address) as driver:
        assert driver.line() == "stored"
        (reference,) = shoal.get(box.take.remote())
        assert shoal.get(reference) == "treasure"
        driver.kill()
    (again,) = shoal.get(box.take.remote())
    try:
        # Whoever has a copy may use it; nobody may wait for ever.
        assert shoal.get(again, timeout=20) == "treasure"
    except OwnerDiedError as error:
        assert again.hex()[:8] in str(error) or error.owner_id
    shoal.kill(box)


def test_ten_drivers_come_and_go(one_node):
    program = (
        START
        + """
@shoal.remote(num_cpus=1)
def double(number):
    return 2 * number
print(sum(shoal.get([double.remote(i) for i in range(50)])))
"""
    )
    before = {node["NodeID"] for node in shoal.nodes()}
    for _ in range(2):
        running = [started_driver(program, one_node.address) for _ in range(3)]
        drivers = [each.__enter__() for each in running]
        assert [driver.line() for driver in drivers] == ["2450"] * 3
        for each in running:
            each.__exit__(None, None, None)
    assert {node["NodeID"] for node in shoal.nodes()} == before
