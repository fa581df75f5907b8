"""Calls as Ray checks them: arguments, groups, generators in `wait`, processes that exit."""

from __future__ import annotations

import os
import sys
import threading

import pytest

import shoal as ray
from tests.cluster.remote_code import Counter, gated, increment

pytestmark = pytest.mark.usefixtures("one_node")


@ray.remote(num_cpus=0)
def keyed(first, second=2, *rest, last, **more):
    return first, second, rest, last, more


@ray.remote(num_cpus=0, max_restarts=1, concurrency_groups=[{"name": "io", "max_concurrency": 2}])
class Ends:
    def pid(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        ray.actor.exit_actor()

    def exit(self, status: object) -> None:
        sys.exit(status)

    @ray.method
    def twice(self, x: int) -> int:
        return 2 * x

    def use(self, handle: object) -> str:
        try:
            handle.add.remote(1, 2, 3)
        except TypeError as error:
            return str(error)
        return "taken"


@pytest.mark.parametrize(
    ("args", "kwargs", "wrong"),
    [
        ((), {"last": 1}, "missing a required argument: 'first'"),
        ((1,), {}, "missing a required argument: 'last'"),
        ((1,), {"first": 2, "last": 3}, "multiple values for argument 'first'"),
    ],
)
def test_a_function_is_called_with_what_it_takes(args, kwargs, wrong):
    with pytest.raises(TypeError, match=rf"keyed: {wrong}; it takes \(first, second=…"):
        keyed.remote(*args, **kwargs)


def test_arguments_of_every_kind_arrive():
    called = keyed.remote(1, increment.remote(1), 3, last=4, other=increment.remote(5))
    assert ray.get(called) == (1, 2, (3,), 4, {"other": 6})


def test_constructors_and_methods_are_called_with_what_they_take():
    with pytest.raises(TypeError, match="too many positional arguments"):
        Counter.remote(1, 2, 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'step'"):
        Counter.options(name="never").remote(step=1)
    with pytest.raises(ValueError, match="never"):
        ray.get_actor("never")
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"Counter\.add: .*it takes \(amount=…\)"):
        counter.add.remote(wrong=1)
    assert ray.get(counter.add.remote(amount=3)) == 3


def test_a_borrowed_handle_knows_what_its_methods_take():
    told = ray.get(Ends.remote().use.remote(Counter.remote()))
    assert "too many positional arguments" in told


def test_a_group_that_the_actor_has_not_is_refused_at_the_call():
    actor = Ends.remote()
    assert ray.get(actor.twice.options(concurrency_group="io").remote(4)) == 8
    with pytest.raises(ValueError, match="'disk'; it has io"):
        actor.twice.options(concurrency_group="disk")


def test_the_call_that_exits_its_actor_gets_its_death():
    actor = Ends.remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match="exit_actor") as caught:
        ray.get(actor.leave.remote())
    assert caught.value.cause.name == "EXITED"
    assert caught.value.time > 0
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.pid.remote(), timeout=30)


def test_sys_exit_ends_an_actor_and_only_a_status_restarts_it():
    gone, back = Ends.remote(), Ends.remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match=r"sys\.exit"):
        ray.get(gone.exit.remote(0))
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(gone.pid.remote(), timeout=30)
    before = ray.get(back.pid.remote())
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(back.exit.remote(3))
    assert ray.get(back.pid.remote(), timeout=30) != before


def test_sys_exit_crashes_a_task_and_never_the_driver():
    for status in (0, 3, "no reason"):
        exiting = ray.remote(max_retries=0)(_exit).remote(status)
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(exiting, timeout=30)


def _exit(status: object) -> None:
    sys.exit(status)


class Refused(Exception):
    pass


@ray.remote(num_cpus=0, max_task_retries=3)
class Refusing:
    def __init__(self) -> None:
        self.calls = 0

    @ray.method(retry_exceptions=[Refused])
    def third_time(self) -> int:
        self.calls += 1
        if self.calls < 3:
            raise Refused
        return self.calls

    @ray.method(retry_exceptions=(Refused,))
    def wrong(self) -> None:
        self.calls += 1
        raise KeyError(self.calls)


def test_a_method_names_the_errors_for_which_it_is_repeated():
    assert ray.get(Refusing.remote().third_time.remote()) == 3
    handle = ray.get(ray.put(Refusing.remote()))
    assert ray.get(handle.third_time.remote()) == 3
    with pytest.raises(KeyError) as caught:
        ray.get(handle.wrong.remote())
    assert caught.value.cause.args == (4,)


# ---- generators


@ray.remote(num_cpus=0)
def counting(path: str, count: int):
    yield from range(count)
    ray.get(gated.remote(path))


def test_wait_takes_generators(gate):
    items = counting.remote(gate.path, 2)
    other = increment.remote(1)
    ready, rest = ray.wait([items, other], num_returns=2, timeout=30)
    assert (ready, rest) == ([items, other], [])
    assert [ray.get(next(items)), ray.get(next(items))] == [0, 1]
    assert items.next_ready() is False
    assert ray.wait([items], timeout=0) == ([], [items])
    gate.open()
    assert ray.wait([items], timeout=30) == ([items], [])
    assert items.is_finished()
    assert items.next_ready() is False
    assert list(items) == []
    assert ray.get(items) is items


def test_a_generator_is_neither_passed_nor_put(gate):
    gate.open()
    items = counting.remote(gate.path, 1)
    with pytest.raises(TypeError, match="ObjectRefGenerator cannot be pickled"):
        increment.remote(items)
    with pytest.raises(TypeError, match="ObjectRefGenerator cannot be pickled"):
        ray.put(items)
    assert items.task_id() == items.completed().task_id()
    assert ray.get(next(items)) == 0


def test_a_generator_with_a_number_of_returns_gives_its_first_items():
    def endless():
        number = 0
        while True:
            yield number
            number += 1

    first = ray.remote(num_returns=1)(endless)
    assert ray.get(first.remote()) == 0
    assert ray.get(first.options(num_returns=3).remote()) == [0, 1, 2]


def test_one_value_is_not_several():
    with pytest.raises(TypeError, match="num_returns=2"):
        ray.get(increment.options(num_returns=2).remote(1))


# ---- errors


def test_an_error_tells_what_it_came_from():
    def twice_wrong() -> None:
        try:
            raise KeyError("the first")
        except KeyError as error:
            raise ValueError("the second") from error

    with pytest.raises(ValueError, match="the second") as caught:
        ray.get(ray.remote(twice_wrong).remote())
    assert "KeyError: 'the first'" in str(caught.value)
    assert "direct cause" in str(caught.value)


def test_what_cannot_be_pickled_is_named():
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"put: the value lock .*cannot be pickled"):
        ray.put(lock)
    with pytest.raises(TypeError, match=r"holds_it.* cannot be pickled"):

        @ray.remote
        def holds_it() -> object:
            return lock

        holds_it.remote()

    def gives_it() -> object:
        return threading.Lock()

    with pytest.raises(TypeError, match="gives_it returned a lock, which cannot be pickled"):
        ray.get(ray.remote(gives_it).remote())


@pytest.mark.parametrize(
    ("call", "errors", "match"),
    [
        (lambda: ray.get(5), (TypeError, ValueError), "ObjectRef or a list"),
        (lambda: ray.get((ray.put(1),)), ValueError, "ObjectRef or a list"),
        (lambda: ray.get([5]), TypeError, "the list holds int 5"),
        (lambda: ray.get(ray.put(1), timeout="1"), TypeError, "timeout"),
        (lambda: ray.wait([ray.put(1)], timeout="1"), TypeError, "timeout"),
        (lambda: ray.wait([ray.put(1), 7]), TypeError, "the list holds int 7"),
        (lambda: ray.wait([ray.put(1)], num_returns="1"), TypeError, "num_returns"),
        (lambda: ray.kill(ray.put(1)), ValueError, "shoal.cancel"),
        (lambda: ray.cancel(Counter.remote()), TypeError, "shoal.kill"),
        (lambda: ray.get_actor(5), TypeError, "name"),
        (lambda: ray.get_actor(5), ValueError, "name"),
        (lambda: ray.get_actor("a", namespace=""), ValueError, "namespace"),
        (lambda: ray.remote(increment), TypeError, "remote already"),
        (lambda: ray.remote(Counter), TypeError, "remote already"),
        (lambda: increment.options(scheduling_strategy=5), TypeError, "scheduling_strategy"),
    ],
)
def test_a_wrong_argument_is_named(call, errors, match):
    with pytest.raises(errors, match=match):
        call()


# ---- context and ids


class Named:
    def names(self) -> tuple[str | None, list[str]]:
        context = ray.get_runtime_context()
        return context.get_task_function_name(), sorted(context.get())


def test_functions_have_full_names_in_the_context():
    def names() -> tuple[str | None, list[str]]:
        context = ray.get_runtime_context()
        return context.get_task_function_name(), sorted(context.get())

    name, ids = ray.get(ray.remote(names).options(name="short").remote())
    assert name == f"{names.__module__}.{names.__qualname__}"
    assert ids == ["job_id", "namespace", "node_id", "task_id"]
    actor = ray.remote(num_cpus=0)(Named).remote()
    name, ids = ray.get(actor.names.remote())
    assert name == f"{Named.__module__}.Named.names"
    assert ids == ["actor_id", "job_id", "namespace", "node_id", "task_id"]


def test_ids_are_of_their_kind(one_node):
    reference = increment.remote(1)
    context = ray.get_runtime_context()
    assert isinstance(reference.task_id(), ray.TaskID)
    assert reference.job_id() == context.job_id == ray.JobID.from_hex(context.get_job_id())
    assert context.node_id == ray.NodeID.from_hex(one_node.head_node.node_id)
    assert (reference.is_nil(), reference.size()) == (False, len(reference.binary()))
    assert context.get_node_labels() == ray.nodes()[0]["Labels"]


def test_a_reference_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match=r"put\(\)"):
        ray.ObjectRef(b"1" * 28)
    assert ray.get(increment.remote(1)) == 2


def test_a_node_that_cannot_exist_is_not_there():
    from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy("ab" * 28, soft=False)
    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        ray.get(increment.options(scheduling_strategy=there).remote(1), timeout=30)
    anywhere = NodeAffinitySchedulingStrategy("ab" * 28, soft=True)
    assert ray.get(increment.options(scheduling_strategy=anywhere).remote(1), timeout=30) == 2
