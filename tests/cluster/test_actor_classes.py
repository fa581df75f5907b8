"""Remote classes and functions besides `.remote`: attributes, `dir`, `_remote`, refusals."""

from __future__ import annotations

import threading

import pytest

import shoal
from shoal.util.multiprocessing import Pool
from tests.cluster.remote_code import Counter, gated, increment, pass_gate

pytestmark = pytest.mark.usefixtures("settled")


class Base:
    inherited = 2


@shoal.remote(num_cpus=0)
class Thing(Base):
    """A thing."""

    own = 3

    def __init__(self, value=0):
        self.value = value

    @staticmethod
    def plain():
        return 4

    @classmethod
    def made_of(cls, value):
        return cls(value)

    def from_inside(self):
        return Thing.inherited, Thing.own, Thing.plain(), Thing.made_of(5).value


def test_an_actor_class_has_what_its_plain_class_has():
    assert (Thing.inherited, Thing.own, Thing.plain(), Thing.made_of(5).value) == (2, 3, 4, 5)
    assert shoal.get(Thing.remote().from_inside.remote(), timeout=20) == (2, 3, 4, 5)
    assert Thing.__doc__ == "A thing."
    with pytest.raises(AttributeError, match="nothing"):
        _ = Thing.nothing


def test_dir_shows_methods_and_what_can_be_done_with_them():
    assert {"from_inside", "own", "plain", "remote", "options"} <= set(dir(Thing))
    actor = Thing.remote()
    assert "from_inside" in dir(actor)
    assert {"remote", "options"} <= set(dir(actor.from_inside))


def test_the_underscore_form_takes_arguments_and_options():
    assert shoal.get(increment._remote((1,), num_cpus=0), timeout=20) == 2
    assert shoal.get(increment._remote(kwargs={"number": 2}), timeout=20) == 3
    counter = Counter._remote(kwargs={"start": 5}, name="underscore")
    assert shoal.get(counter.add._remote((2,)), timeout=20) == 7
    assert shoal.get_actor("underscore") == counter


def test_a_reference_calls_back_with_its_value_or_error(gate):
    @shoal.remote(num_cpus=0)
    def fails():
        raise ValueError("on purpose")

    seen, everything = [], threading.Event()

    def note(value):
        seen.append(value)
        if len(seen) == 3:
            everything.set()

    late = gated.remote(gate.path, "late")
    late._on_completed(note)
    early = increment.remote(1)
    assert shoal.get(early, timeout=20) == 2
    early._on_completed(note)
    fails.remote()._on_completed(note)
    gate.open()
    assert everything.wait(20)
    values = [value for value in seen if not isinstance(value, Exception)]
    assert sorted(map(str, values)) == ["2", "late"]
    assert [type(value) for value in seen if isinstance(value, ValueError)]


def test_coroutine_functions_are_refused_as_tasks():
    with pytest.raises(ValueError, match="async def"):

        @shoal.remote
        async def coroutine():
            pass


def test_a_pool_larger_than_the_cluster_is_refused_and_a_result_says_it_is_not_ready(gate):
    with pytest.raises(ValueError, match="takes 5 CPUs; the cluster has 4"):
        Pool(5)
    with Pool(1) as pool:
        held = pool.apply_async(pass_gate, (gate.path,))
        with pytest.raises(ValueError, match="not ready"):
            held.successful()
        gate.open()
        held.get(20)
        assert held.successful()
