"""Values as bytes: by value where they must, without copies where they can."""

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from driver_client.objects import serialization


class Refers:
    """Reports itself as references do."""

    def __reduce__(self):
        serialization.note_reference(self)
        return _refers, ()


def _refers():
    made = Refers()
    serialization.note_reference(made)
    return made


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        1.5,
        "text",
        b"bytes",
        b"",
        [1, {"a": (2, 3)}],
        {1, 2},
        "__main__",
        b"\x01",
    ],
)
def test_plain_values_come_back_equal(value):
    assert serialization.loads(serialization.dumps(value)) == value


def test_functions_travel_by_value():
    offset = 3
    data = serialization.dumps(lambda x: x + offset)
    assert serialization.loads(data)(4) == 7


def test_classes_of_the_main_module_travel_by_value():
    """One process defines a class in its main module; another one reads an instance of it."""
    writer = (
        "import sys\n"
        "from driver_client.objects import serialization\n"
        "class Point:\n"
        "    def __init__(self, x): self.x = x\n"
        "    def twice(self): return 2 * self.x\n"
        "sys.stdout.buffer.write(serialization.dumps([Point(21)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", writer], capture_output=True, check=True, timeout=60
    )
    assert serialization.loads(done.stdout)[0].twice() == 42


def test_large_arrays_are_read_without_a_copy_and_cannot_be_written():
    array = np.arange(4096, dtype=np.int64)
    data = serialization.dumps({"a": array, "b": array[:600].copy(), "c": "x"})
    back = serialization.loads(data)
    assert back["a"].tolist() == array.tolist()
    assert back["b"].tolist() == array[:600].tolist()
    whole = np.frombuffer(data, dtype=np.uint8)
    for name in ("a", "b"):
        assert not back[name].flags.writeable
        assert np.shares_memory(back[name], whole)
    with pytest.raises(ValueError, match="read-only"):
        back["a"][0] = 1


def test_buffers_are_aligned_for_vector_instructions():
    data = serialization.dumps([np.zeros(1000), np.ones(777, dtype=np.float32).repeat(3)])
    start = np.frombuffer(data, dtype=np.uint8).ctypes.data
    assert [(array.ctypes.data - start) % 64 for array in serialization.loads(data)] == [0, 0]


def test_small_arrays_stay_in_band():
    data = serialization.dumps(np.arange(3))
    assert data[0] == 0x80
    assert serialization.loads(data).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10_000).reshape(100, 100).T,
        np.arange(20_000)[::2],
        np.zeros((0, 5)),
        np.array(["a", None] * 1000, dtype=object),
    ],
    ids=["fortran", "strided", "empty", "objects"],
)
def test_arrays_of_any_layout_come_back(array):
    back = serialization.loads(serialization.dumps(array))
    assert back.shape == array.shape
    assert back.tolist() == array.tolist()


def test_references_inside_are_collected_on_both_ways():
    ref = Refers()
    data, refs = serialization.dumps_with_references({"a": [ref]})
    assert refs == [ref]
    value, rebuilt = serialization.loads_with_references(data)
    assert rebuilt == value["a"]


def test_a_reference_next_to_code_is_collected_once_or_more_never_lost():
    ref = Refers()
    _, refs = serialization.dumps_with_references([ref, lambda: 1])
    assert set(refs) == {ref}


def test_collecting_nests_and_ends():
    class Nested:
        def __reduce__(self):
            inner = serialization.dumps_with_references(Refers())[1]
            assert len(inner) == 1
            return str, ("x",)

    _, refs = serialization.dumps_with_references([Nested(), Refers()])
    assert len(refs) >= 1
    assert all(isinstance(ref, Refers) for ref in refs)
    serialization.note_reference(object())
    assert serialization.dumps_with_references(1)[1] == []


def test_threads_collect_their_own():
    counts = []

    def work(count):
        value = [Refers() for _ in range(count)]
        counts.append((count, len(serialization.dumps_with_references(value)[1])))

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 20, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(counts) == [(1, 1), (20, 20), (300, 300)]


def test_what_cannot_be_pickled_says_so_and_ends_the_collecting():
    with pytest.raises((TypeError, pickle.PicklingError)):
        serialization.dumps_with_references([Refers(), threading.Lock()])
    assert serialization.dumps_with_references(2)[1] == []
