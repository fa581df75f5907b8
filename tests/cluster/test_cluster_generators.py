"""Generators: items as they are made, back-pressure, failures, references inside items."""

from __future__ import annotations

import pytest

import shoal

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("local")]


@shoal.remote
def squares(count: int):
    for number in range(count):
        yield number * number


def test_items_come_one_by_one_and_in_order():
    assert [shoal.get(ref) for ref in squares.remote(50)] == [n * n for n in range(50)]


def test_an_item_is_there_before_the_generator_ends(tmp_path):
    @shoal.remote
    def gated(path: str):
        import time
        from pathlib import Path

        yield "first"
        while not Path(path).exists():
            time.sleep(0.005)
        yield "second"

    items = gated.remote(str(tmp_path / "go"))
    assert shoal.get(next(items), timeout=20) == "first"
    (tmp_path / "go").touch()
    assert shoal.get(next(items), timeout=20) == "second"
    with pytest.raises(StopIteration):
        next(items)
    assert items.is_finished()
    assert shoal.get(items.completed(), timeout=20) is None


def test_a_failure_comes_after_the_items_before_it():
    @shoal.remote
    def breaks():
        yield 1
        raise ValueError("the second item")

    items = breaks.remote()
    assert shoal.get(next(items), timeout=20) == 1
    with pytest.raises(ValueError, match="the second item"):
        shoal.get(next(items), timeout=20)


def test_no_more_items_are_made_than_may_wait(tmp_path):
    @shoal.remote(_generator_backpressure_num_objects=2)
    def noted(folder: str):
        from pathlib import Path

        for number in range(6):
            (Path(folder) / str(number)).touch()
            yield number

    items = noted.remote(str(tmp_path))
    assert shoal.get(next(items), timeout=20) == 0
    for expected in range(1, 6):
        assert len(list(tmp_path.iterdir())) <= expected + 2
        assert shoal.get(next(items), timeout=20) == expected


def test_dynamic_returns_are_a_value_of_references():
    @shoal.remote(num_returns="dynamic")
    def several(count: int):
        yield from range(count)

    refs = shoal.get(several.remote(4), timeout=20)
    assert len(refs) == 4
    assert shoal.get(list(refs), timeout=20) == [0, 1, 2, 3]


@shoal.remote
class Source:
    def boxed(self, count: int):
        for number in range(count):
            yield [shoal.put(number)]

    async def slowly(self, count: int):
        for number in range(count):
            yield number


def test_generators_of_actors_plain_and_async_with_references_inside():
    source = Source.remote()
    boxes = [shoal.get(ref, timeout=20) for ref in source.boxed.remote(3)]
    assert [shoal.get(box[0], timeout=20) for box in boxes] == [0, 1, 2]
    assert [shoal.get(ref, timeout=20) for ref in source.slowly.remote(3)] == [0, 1, 2]


def test_a_function_that_should_stream_and_does_not_says_so():
    @shoal.remote(num_returns="streaming")
    def plain() -> int:
        return 7

    with pytest.raises(TypeError, match="streams its returns"):
        shoal.get(next(plain.remote()), timeout=20)
