"""`put(value, _owner=actor)`, and what a job's configuration says of its actors."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import shoal
from shoal.exceptions import OwnerDiedError
from shoal.job_config import JobConfig
from tests.cluster.drivers import run_driver, started_driver
from tests.cluster.remote_code import pass_gate
from tests.cluster.waiting import until, until_gone

pytestmark = pytest.mark.usefixtures("settled")


@shoal.remote(num_cpus=0)
class Keeper:
    """Owns what others make."""

    def pid(self) -> int:
        return os.getpid()

    def busy(self, path: str) -> None:
        pass_gate(path)

    def objects(self) -> int:
        from driver_client import process

        return process.get_runtime().counts()["objects"]

    def own(self, value: object) -> list:
        me = shoal.get_runtime_context().current_actor
        return [shoal.put(value, _owner=me)]


@shoal.remote(num_cpus=0, max_retries=0)
def give(keeper: object, value: object, path: str) -> list:
    reference = shoal.put(value, _owner=keeper)
    Path(path).write_text(str(os.getpid()), encoding="ascii")
    return [reference]


@shoal.remote(num_cpus=0)
def read(references: list) -> list:
    return shoal.get(references)


def test_a_value_outlives_who_made_it(one_node, tmp_path):
    keeper = Keeper.remote()
    shoal.get(keeper.pid.remote())
    [reference] = shoal.get(give.remote(keeper, {"a": [1] * 1000}, str(tmp_path / "pid")))
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    until_gone(int((tmp_path / "pid").read_text()))
    assert shoal.get(reference) == {"a": [1] * 1000}
    assert shoal.get(read.remote([reference])) == [{"a": [1] * 1000}]


def test_the_owner_may_be_busy_and_forgets_the_value_with_the_last_reference(one_node, gate):
    keeper = Keeper.remote()
    shoal.get(keeper.pid.remote())
    before = shoal.get(keeper.objects.remote())
    busy = keeper.busy.remote(gate.path)
    inner = shoal.put("inner")
    reference = shoal.put(["outer", inner], _owner=keeper)
    del inner
    outer, got = shoal.get(reference)
    assert (outer, shoal.get(got)) == ("outer", "inner")
    gate.open()
    shoal.get(busy)
    assert shoal.get(keeper.objects.remote()) == before + 1
    del reference, got
    until(lambda: shoal.get(keeper.objects.remote()) == before, "the owner forgot the value")


def test_the_value_ends_with_its_owner(one_node):
    keeper = Keeper.remote()
    reference = shoal.put(1, _owner=keeper)  # waits until the actor is alive
    pid = shoal.get(keeper.pid.remote())
    shoal.kill(keeper)
    until_gone(pid)
    with pytest.raises(OwnerDiedError):
        shoal.get(reference, timeout=20)
    with pytest.raises(RuntimeError, match="KILLED"):
        shoal.put(1, _owner=keeper)


def test_an_actor_that_names_itself_and_one_that_somebody_else_owns(one_node):
    keeper = Keeper.options(name="keeper", lifetime="detached").remote()
    [reference] = shoal.get(keeper.own.remote("mine"))
    assert shoal.get(reference) == "mine"
    again = shoal.put("other", _owner=shoal.get_actor("keeper"))
    assert shoal.get(again) == "other"
    shoal.kill(keeper)


@pytest.mark.parametrize("owner", [1, "name", Keeper], ids=["number", "text", "class"])
def test_an_owner_is_an_actor_handle(one_node, owner):
    with pytest.raises(TypeError, match="_owner must be an actor handle"):
        shoal.put(1, _owner=owner)


# ---- what a job says


JOB = """
    import shoal
    from shoal.job_config import JobConfig
    shoal.init(
        namespace="tests", log_to_driver=False,
        job_config=JobConfig(default_actor_lifetime="detached"),
    )

    @shoal.remote(num_cpus=0)
    class Plain:
        def ping(self):
            return 1

    @shoal.remote(num_cpus=0)
    def inside():
        made = Plain.options(name="from a task").remote()
        return shoal.get(made.ping.remote())

    shoal.get(Plain.options(name="from the driver").remote().ping.remote())
    shoal.get(inside.remote())
    owned = Plain.options(name="owned", lifetime="non_detached").remote()
    shoal.get(owned.ping.remote())
    print("ready")
"""


def test_actors_of_a_job_may_be_detached_by_default(one_node):
    done = run_driver(JOB, one_node.address)
    assert done.returncode == 0, done.stderr
    until(lambda: "owned" not in shoal.util.list_named_actors(), "the owned one ended")
    for name in ("from the driver", "from a task"):
        actor = shoal.get_actor(name)
        assert shoal.get(actor.ping.remote(), timeout=20) == 1
        shoal.kill(actor)


def test_modules_are_found_in_the_jobs_search_path(one_node, tmp_path):
    (tmp_path / "only_here.py").write_text("VALUE = 42\n", encoding="utf-8")
    text = f"""
        import shoal
        from shoal.job_config import JobConfig
        shoal.init(job_config=JobConfig(code_search_path=[{str(tmp_path)!r}]), log_to_driver=False)

        @shoal.remote
        def value():
            import only_here
            return only_here.VALUE

        print(shoal.get(value.remote()))
    """
    done = run_driver(text, one_node.address)
    assert done.stdout.strip() == "42", done.stderr


def test_a_configuration_is_plain_data():
    config = JobConfig.from_json({"ray_namespace": "n", "default_actor_lifetime": "detached"})
    assert (config.ray_namespace, config.default_actor_lifetime) == ("n", "detached")
    config.set_default_actor_lifetime("non_detached")
    assert config.default_actor_lifetime == "non_detached"
    with pytest.raises(ValueError, match="non_detached, not 'forever'"):
        JobConfig(default_actor_lifetime="forever")


def test_a_driver_that_dies_while_it_gives_a_value_leaves_none(one_node):
    keeper = Keeper.options(name="patient", lifetime="detached").remote()
    shoal.get(keeper.pid.remote())
    before = shoal.get(keeper.objects.remote())
    text = """
        import os, shoal
        shoal.init(namespace="tests", log_to_driver=False)
        keeper = shoal.get_actor("patient")
        references = [shoal.put(number, _owner=keeper) for number in range(5)]
        print("ready")
        input()
    """
    with started_driver(text, one_node.address) as driver:
        assert driver.line() == "ready"
        driver.kill()
    until(lambda: shoal.get(keeper.objects.remote()) == before, "nothing of the driver is left")
    shoal.kill(keeper)
