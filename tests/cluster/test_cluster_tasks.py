"""Tasks: values, references, several returns, nesting, retries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import shoal
from shoal.exceptions import GetTimeoutError, WorkerCrashedError
from tests.cluster.remote_code import gated, increment

pytestmark = pytest.mark.usefixtures("one_node")


@shoal.remote
def keep(*args: object, **kwargs: object) -> tuple[object, ...]:
    return (*args, *sorted(kwargs.items()))


@shoal.remote
def is_reference(values: list[object]) -> list[bool]:
    return [isinstance(value, shoal.ObjectRef) for value in values]


@shoal.remote
def fibonacci(number: int) -> int:
    if number < 2:
        return number
    return sum(shoal.get([fibonacci.remote(number - 1), fibonacci.remote(number - 2)]))


@shoal.remote
def depth(levels: int) -> int:
    return 0 if levels == 0 else 1 + shoal.get(depth.remote(levels - 1))


def note_attempt(path: str) -> int:
    """Appends a mark; how many attempts there were so far, this one included."""
    with Path(path).open("a", encoding="ascii") as attempts:
        attempts.write("x")
    return len(Path(path).read_text(encoding="ascii"))


def crash_before(path: str, success: int) -> int:
    attempt = note_attempt(path)
    if attempt < success:
        os._exit(1)
    return attempt


def raise_before(path: str, success: int) -> int:
    attempt = note_attempt(path)
    if attempt < success:
        raise KeyError(attempt)
    return attempt


def test_positional_and_keyword_arguments_arrive():
    assert shoal.get(keep.remote(1, "a", b=2, a=None)) == (1, "a", ("a", None), ("b", 2))


def test_a_reference_as_an_argument_is_its_value():
    first = increment.remote(1)
    assert shoal.get(increment.remote(first)) == 3
    assert shoal.get(keep.remote(value=first)) == (("value", 2),)


def test_a_reference_inside_a_container_stays_a_reference():
    assert shoal.get(is_reference.remote([shoal.put(1), 2])) == [True, False]


def test_a_long_chain_of_unfinished_arguments_resolves():
    reference = shoal.put(0)
    for _ in range(200):
        reference = increment.remote(reference)
    assert shoal.get(reference) == 200


def test_an_argument_that_is_not_ready_is_waited_for(gate):
    late = gated.remote(gate.path, 41)
    answer = increment.remote(late)
    assert shoal.wait([answer], timeout=0) == ([], [answer])
    gate.open()
    assert shoal.get(answer) == 42


def test_several_returns_are_several_references():
    pair = shoal.remote(num_returns=2)(lambda: ("left", "right"))
    left, right = pair.remote()
    assert shoal.get([right, left]) == ["right", "left"]
    third = pair.options(num_returns=1).remote()
    assert shoal.get(third) == ("left", "right")


def test_a_wrong_number_of_returns_is_an_error():
    first, second = shoal.remote(num_returns=2)(lambda: (1, 2, 3)).remote()
    for reference in (first, second):
        with pytest.raises(ValueError, match="2"):
            shoal.get(reference)


def test_a_thousand_tasks_give_a_thousand_right_values():
    assert shoal.get([increment.remote(i) for i in range(1000)]) == list(range(1, 1001))


def test_tasks_start_tasks():
    assert shoal.get(fibonacci.remote(7)) == 13


def test_a_task_that_waits_gives_its_cpu_to_those_it_waits_for():
    assert shoal.get(depth.remote(8)) == 8  # Four CPUs: without that, the fifth level would hang.


def test_closures_and_lambdas_travel_by_value():
    offset = 40
    assert shoal.get(shoal.remote(lambda value: value + offset).remote(2)) == 42


@pytest.mark.parametrize("size", [0, 99_000, 101_000, 3_000_000])
def test_values_of_any_size_arrive_whole(size):
    data = os.urandom(size)
    assert shoal.get(keep.remote(data)) == (data,)
    assert shoal.get(keep.remote(shoal.put(data))) == (data,)


def test_a_remote_function_cannot_be_called_directly():
    with pytest.raises(TypeError, match=r"increment.*remote"):
        increment(1)


def test_a_task_whose_worker_dies_runs_again(tmp_path):
    task = shoal.remote(max_retries=2)(crash_before)
    assert shoal.get(task.remote(str(tmp_path / "attempts"), 3)) == 3


def test_a_task_without_retries_fails_with_its_worker(tmp_path):
    task = shoal.remote(max_retries=0)(crash_before)
    with pytest.raises(WorkerCrashedError):
        shoal.get(task.remote(str(tmp_path / "attempts"), 2))
    assert (tmp_path / "attempts").read_text() == "x"


def test_an_exception_is_retried_only_if_asked_for(tmp_path):
    once = shoal.remote(max_retries=3)(raise_before)
    with pytest.raises(KeyError):
        shoal.get(once.remote(str(tmp_path / "once"), 2))
    again = shoal.remote(max_retries=3, retry_exceptions=True)(raise_before)
    assert shoal.get(again.remote(str(tmp_path / "again"), 3)) == 3
    other = shoal.remote(max_retries=3, retry_exceptions=[OSError])(raise_before)
    with pytest.raises(KeyError):
        shoal.get(other.remote(str(tmp_path / "other"), 2))


def test_the_context_names_the_task_its_node_and_its_job(one_node):
    def look() -> tuple[str | None, str, str, str | None]:
        context = shoal.get_runtime_context()
        return (
            context.get_task_id(),
            context.get_node_id(),
            context.get_job_id(),
            context.get_actor_id(),
        )

    (first, node, job, actor), (second, *_) = shoal.get(
        [shoal.remote(look).remote() for _ in range(2)]
    )
    assert first != second
    assert node == one_node.head_node.node_id
    assert job == shoal.get_runtime_context().get_job_id()
    assert actor is None


def test_a_task_no_node_can_hold_stays_pending_and_runs_nowhere():
    impossible = increment.options(resources={"unobtainium": 1}).remote(1)
    with pytest.raises(GetTimeoutError):
        shoal.get(impossible, timeout=0.1)
