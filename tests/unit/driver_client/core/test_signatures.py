"""A call is checked as Python would check it, from a text that travels in handles."""

from __future__ import annotations

import functools
import inspect

import pytest

from driver_client.core import signatures


def plain(a, b=2): ...


def everything(a, /, b, c=1, *rest, d, e=2, **more): ...


def nothing(): ...


def only_named(*, x): ...


def wrapped(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


CALLS = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((1, 2, 3, 4), {}),
    ((1,), {"b": 2}),
    ((1,), {"a": 2}),
    ((1, 2), {"d": 3}),
    ((1, 2, 3, 4), {"d": 3, "z": 4}),
    ((), {"a": 1}),
    ((), {"x": 1}),
    ((1,), {"x": 1}),
]


@pytest.mark.parametrize("function", [plain, everything, nothing, only_named, wrapped(plain)])
@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_the_same_calls_pass_as_in_python(function, args, kwargs):
    checked = signatures.read(signatures.of_function(function))
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        with pytest.raises(TypeError) as caught:
            checked.check("f", args, kwargs)
        assert str(error) in str(caught.value)
        assert str(caught.value).startswith("f: ")
    else:
        checked.check("f", args, kwargs)


def test_the_error_shows_what_the_function_takes():
    with pytest.raises(TypeError, match=r"it takes \(a, b, c=…, \*rest, d, e=…, \*\*more\)"):
        signatures.read(signatures.of_function(everything)).check("f", (), {})
    with pytest.raises(TypeError, match=r"it takes \(\*, x\)"):
        signatures.read(signatures.of_function(only_named)).check("f", (), {})


class Has:
    def __init__(self, start, step=1): ...

    def method(self, x): ...

    @staticmethod
    def static(x, y): ...

    @classmethod
    def of_class(cls, x): ...

    def anything(*args): ...

    odd = functools.partialmethod(method, 1)


class Bare: ...


class Made:
    def __new__(cls, x):
        return super().__new__(cls)


def test_methods_are_seen_as_their_callers_see_them():
    found = {n: signatures.of_method(Has, n) for n in ("method", "static", "of_class", "anything")}
    assert found == {"method": "x", "static": "x,y", "of_class": "x", "anything": "*args"}


def test_constructors_are_seen_as_their_callers_see_them():
    assert signatures.of_constructor(Has) == "start,step="
    assert signatures.of_constructor(Bare) == ""
    with pytest.raises(TypeError, match="too many"):
        signatures.read("").check("Bare", (1,), {})


def test_what_is_not_known_is_not_checked():
    assert signatures.read(signatures.of_method(Has, "odd")) is None
    assert signatures.read(signatures.of_constructor(Made)) is None
    assert signatures.read(signatures.of_constructor(dict)) is None
