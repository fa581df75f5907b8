"""Small things of `ray.util`, and what a process that connects does to itself."""

from __future__ import annotations

import io
import threading

import pytest

import shoal as ray
from shoal import util
from tests.cluster.drivers import run_driver
from tests.cluster.remote_code import gated, increment


class Locked:
    def __init__(self, value: int) -> None:
        self.value = value
        self.lock = threading.Lock()


def test_results_come_as_they_are_completed(one_node, gate):
    late = gated.remote(gate.path, "late")
    early = [increment.remote(number) for number in range(3)]
    results = util.as_completed([late, *early], chunk_size=1)
    assert sorted(next(results) for _ in range(3)) == [1, 2, 3]
    gate.open()
    assert list(results) == ["late"]
    assert list(util.as_completed([])) == []
    assert list(util.as_completed(early, yield_obj_refs=True)) == early


def test_results_of_many_calls_come_and_few_are_pending(one_node):
    asked: list[int] = []

    def numbers():
        for number in range(50):
            asked.append(number)
            yield number

    results = util.map_unordered(increment, numbers(), backpressure_size=5, chunk_size=1)
    first = next(results)
    assert len(asked) == 5
    assert sorted([first, *results]) == list(range(1, 51))
    references = list(util.map_unordered(increment, [1, 2], yield_obj_refs=True))
    assert sorted(ray.get(references)) == [2, 3]


def test_a_failed_call_raises_where_its_result_would_come(one_node):
    with pytest.raises(ray.exceptions.RayTaskError):
        list(util.as_completed([increment.remote("no number")]))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: util.as_completed([], chunk_size=0), "chunk_size"),
        (lambda: util.as_completed([], num_returns=1), "num_returns"),
        (lambda: util.map_unordered(increment, [], backpressure_size=0), "backpressure_size"),
        (lambda: util.map_unordered(increment, [], chunk_size=0), "chunk_size"),
        (lambda: util.map_unordered(increment, [], num_returns=1), "num_returns"),
    ],
)
def test_wrong_options_are_refused_before_the_first_result(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_a_class_travels_as_its_registered_serializer_says(one_node):
    with pytest.raises(TypeError, match="lock"):
        ray.put(Locked(1))
    util.register_serializer(
        Locked, serializer=lambda locked: locked.value, deserializer=lambda value: Locked(value + 1)
    )
    try:
        assert ray.get(ray.put(Locked(1))).value == 2
        assert ray.get(ray.put({"in": [Locked(3)]}))["in"][0].value == 4
        value = ray.remote(lambda locked: locked.value).remote(Locked(5))
        assert ray.get(value) == 6
    finally:
        util.deregister_serializer(Locked)
    util.deregister_serializer(Locked)
    with pytest.raises(TypeError, match="lock"):
        ray.put(Locked(1))


def test_a_serializer_must_be_one():
    with pytest.raises(TypeError, match="class"):
        util.register_serializer(5, serializer=int, deserializer=int)
    with pytest.raises(TypeError, match="deserializer"):
        util.register_serializer(Locked, serializer=int, deserializer=5)


def test_the_part_that_cannot_be_pickled_is_found():
    lock = threading.Lock()

    def uses_it() -> object:
        return lock

    out = io.StringIO()
    fits, failures = util.inspect_serializability(uses_it, print_file=out)
    assert not fits
    assert [(failure.name, failure.obj) for failure in failures] == [("lock", lock)]
    assert "lock" in out.getvalue()
    assert util.inspect_serializability([1, 2], print_file=out) == (True, set())
    _, failures = util.inspect_serializability({"held": Locked(1)}, print_file=out)
    assert [failure.name for failure in failures] == ["lock"]


def test_a_process_knows_its_address(one_node):
    address = ray.nodes()[0]["NodeManagerAddress"]
    assert util.get_node_ip_address() == address
    assert ray.get(ray.remote(util.get_node_ip_address).remote()) == address
    assert util.get_node_instance_id() == ""


def test_names_of_rays_modules_are_here():
    import shoal.cloudpickle
    import shoal.remote_function
    import shoal.runtime_context
    import shoal.types

    assert shoal.cloudpickle.loads(shoal.cloudpickle.dumps(lambda: 3))() == 3
    assert shoal.remote_function.RemoteFunction is ray.RemoteFunction
    assert shoal.runtime_context.RuntimeContext is ray.RuntimeContext
    assert shoal.types.ObjectRef is ray.ObjectRef


def test_drivers_and_workers_may_open_as_many_files_as_the_machine_allows():
    done = run_driver(
        """
        import resource
        import shoal
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        shoal.init(num_cpus=1)
        limits = shoal.remote(lambda: resource.getrlimit(resource.RLIMIT_NOFILE))
        print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))
        print(shoal.get(limits.remote()) == (hard, hard))
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True"]


def test_what_does_not_connect_says_so_as_ray_does():
    done = run_driver(
        """
        import shoal
        asked = (shoal.nodes, shoal.cluster_resources, shoal.available_resources, shoal.timeline)
        for ask in asked:
            for error in (RuntimeError, shoal.exceptions.RaySystemError):
                try:
                    ask()
                except error as told:
                    assert "shoal.init()" in str(told)
                else:
                    raise AssertionError(ask)
        for wrong in ({"namespace": 5}, {"job_config": 5}, {"labels": {"a": 5}},
                      {"object_store_memory": -1}):
            try:
                shoal.init(**wrong)
            except (TypeError, ValueError) as told:
                assert next(iter(wrong)) in str(told), told
            else:
                raise AssertionError(wrong)
        assert not shoal.is_initialized()
        """
    )
    assert done.returncode == 0, done.stderr
