"""`put`, `get` and `wait`: what they accept, and what their timeouts mean."""

from __future__ import annotations

import asyncio

import pytest

import shoal
from shoal.exceptions import GetTimeoutError
from tests.cluster.remote_code import gated, increment

pytestmark = pytest.mark.usefixtures("one_node")


def test_timeout_zero_polls(gate):
    slow = gated.remote(gate.path, "late")
    with pytest.raises(GetTimeoutError):
        shoal.get(slow, timeout=0)
    assert shoal.wait([slow], timeout=0) == ([], [slow])
    ready = shoal.put("here")
    assert shoal.get(ready, timeout=0) == "here"
    assert shoal.wait([ready], timeout=0) == ([ready], [])
    gate.open()
    assert shoal.get(slow) == "late"
    assert shoal.get(slow, timeout=0) == "late"


def test_a_short_timeout_is_an_error_of_both_families(gate):
    slow = gated.remote(gate.path)
    with pytest.raises(TimeoutError) as caught:
        shoal.get(slow, timeout=0.05)
    assert isinstance(caught.value, GetTimeoutError)
    assert shoal.wait([slow], timeout=0.05) == ([], [slow])
    gate.open()


@pytest.mark.parametrize("timeout", [-1, -0.001])
def test_a_negative_timeout_is_refused(timeout):
    reference = shoal.put(1)
    with pytest.raises(ValueError, match="timeout"):
        shoal.get(reference, timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        shoal.wait([reference], timeout=timeout)


def test_get_takes_a_reference_or_a_list():
    first, second = shoal.put(1), shoal.put(2)
    assert shoal.get([]) == []
    assert shoal.get([second, first, second]) == [2, 1, 2]
    for wrong in ((first, second), 1, None, [first, 2]):
        with pytest.raises((TypeError, ValueError)):
            shoal.get(wrong)


def test_put_refuses_a_reference():
    with pytest.raises(TypeError):
        shoal.put(shoal.put(1))


def test_put_takes_a_copy():
    value = [1, 2]
    reference = shoal.put(value)
    value.append(3)
    assert shoal.get(reference) == [1, 2]


def test_references_inside_a_value_stay_alive_with_it():
    inner = shoal.put("inner")
    outer = shoal.put({"inner": inner})
    del inner
    assert shoal.get(shoal.get(outer)["inner"]) == "inner"


def test_a_reference_made_by_a_task_outlives_the_task():
    @shoal.remote
    def make() -> list[object]:
        return [shoal.put("made inside")]

    assert shoal.get(shoal.get(make.remote())[0]) == "made inside"


def test_wait_returns_what_is_ready_and_keeps_the_order(gate):
    slow = gated.remote(gate.path)
    ready = [shoal.put(number) for number in range(3)]
    done, left = shoal.wait([ready[0], slow, *ready[1:]], num_returns=3)
    assert (done, left) == (ready, [slow])
    done, left = shoal.wait([slow, *ready], num_returns=1)
    assert (done, left) == ([ready[0]], [slow, *ready[1:]])
    gate.open()
    assert shoal.wait([slow]) == ([slow], [])


def test_wait_pops_a_thousand_one_by_one():
    waiting = [increment.remote(number) for number in range(1000)]
    seen: set[int] = set()
    while waiting:
        done, waiting = shoal.wait(waiting)
        assert len(done) == 1
        seen.add(shoal.get(done[0]))
    assert seen == set(range(1, 1001))


def test_wait_on_nothing_returns_nothing():
    assert shoal.wait([]) == ([], [])


def test_wait_counts_a_failed_task_as_ready():
    def fail() -> None:
        raise OSError("no")

    failed = shoal.remote(fail).remote()
    assert shoal.wait([failed], timeout=20) == ([failed], [])


def test_wait_refuses_what_makes_no_sense():
    reference = shoal.put(1)
    with pytest.raises(TypeError):
        shoal.wait(reference)
    with pytest.raises(TypeError):
        shoal.wait([1])
    with pytest.raises(ValueError, match=r"[Dd]uplicate|unique"):
        shoal.wait([reference, reference])
    for count in (0, -1, 2):
        with pytest.raises(ValueError, match="num_returns"):
            shoal.wait([reference], num_returns=count)


def test_a_reference_can_be_awaited_and_has_a_future(gate):
    async def both() -> list[object]:
        slow = gated.remote(gate.path, "slow")
        gate.open()
        return [await slow, await increment.remote(1)]

    assert asyncio.run(both()) == ["slow", 2]
    assert increment.remote(2).future().result(timeout=20) == 3


def test_references_are_equal_by_identity_and_work_as_keys():
    reference = shoal.put(1)
    assert {reference: "x"}[reference] == "x"
    assert reference != shoal.put(1)
    assert len(bytes.fromhex(reference.hex())) == len(reference.binary())
