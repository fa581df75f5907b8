"""Arguments as a payload, and the references among and inside them."""

import threading

import pytest

from driver_client import exceptions, limits, object_ref
from driver_client.arguments import pack
from driver_client.object_ref import ObjectRef
from driver_client.objects import serialization
from driver_client.objects.entry import Entry


@pytest.fixture(autouse=True)
def _no_runtime():
    yield
    object_ref.changes.clear()


def reference(sequence=1):
    return ObjectRef(Entry(sequence, b"o" * 16, "h:1"))


def test_no_arguments_cost_nothing():
    assert pack((), {}) == (b"", None)


def test_plain_arguments_have_no_extra():
    payload, extra = pack((1, [2]), {"k": "v"})
    assert serialization.loads(payload) == ((1, [2]), {"k": "v"})
    assert extra is None


def test_arguments_that_are_references_leave_a_hole_at_their_position():
    first, second = reference(1), reference(2)
    payload, extra = pack((0, first), {"a": 1, "b": second})
    assert serialization.loads(payload) == ((0, None), {"a": 1, "b": None})
    assert extra.arguments == [(1, first), (3, second)]
    assert extra.contained == []


def test_references_inside_arguments_stay_and_are_kept_alive():
    inner = reference()
    _, extra = pack(([inner],), {})
    assert extra.arguments == []
    assert extra.contained == [inner]


@pytest.mark.parametrize(
    ("args", "kwargs", "name"),
    [((1, threading.Lock()), {}, "argument 1"), ((), {"k": threading.Lock()}, "argument 'k'")],
)
def test_an_argument_that_cannot_be_pickled_is_named(args, kwargs, name):
    with pytest.raises(TypeError, match=f"{name} .lock. cannot be pickled"):
        pack(args, kwargs)


def test_arguments_that_are_too_large_are_refused_before_they_are_sent(monkeypatch):
    monkeypatch.setattr(limits, "OBJECT_BYTES_MAX", 1_000)
    pack((b"x" * 900,), {})
    with pytest.raises(exceptions.ObjectStoreFullError, match="at most 1000"):
        pack((b"x" * 600, b"y" * 600), {})
