"""Finds out what in a value keeps it from being pickled."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TextIO, cast

from driver_client.core.shapes import is_dict
from driver_client.objects import serialization

_DEPTH_MAX = 8


class FailureTuple(NamedTuple):
    """A part that cannot be pickled.

    Attributes:
        obj: the part.
        name: its name inside its parent.
        parent: what holds it.
    """

    obj: Any
    name: str
    parent: Any


def inspect_serializability(
    base_obj: Any, name: str | None = None, depth: int = 3, print_file: TextIO | None = None
) -> tuple[bool, set[FailureTuple]]:
    """(whether a value can be pickled, the innermost parts that cannot).

    Args:
        base_obj: the value, function or class.
        name: what to call it in the output.
        depth: how many levels of closures, globals, attributes and items to look into.
        print_file: where to say what was found; None: the standard output.
    """
    out = print_file or sys.stdout
    shown = name or str(base_obj)
    problem = _problem(base_obj)
    if problem is None:
        out.write(f"{shown}: can be pickled\n")
        return True, set()
    out.write(f"{shown}: cannot be pickled: {problem}\n")
    found: dict[int, FailureTuple] = {}
    _look_into(base_obj, shown, base_obj, min(depth, _DEPTH_MAX), found)
    for failure in found.values():
        out.write(f"  {failure.name} of {failure.parent!r}: {failure.obj!r}\n")
    return False, _hashable(found)


def _hashable(found: Mapping[int, FailureTuple]) -> set[FailureTuple]:
    kept: set[FailureTuple] = set()
    for failure in found.values():
        try:
            kept.add(failure)
        except TypeError:  # an unhashable part is told by its text
            kept.add(FailureTuple(repr(failure.obj), failure.name, repr(failure.parent)))
    return kept


def _look_into(
    value: Any, name: str, parent: Any, depth: int, found: dict[int, FailureTuple]
) -> None:
    inner = [
        (part_name, part)
        for part_name, part in _parts(value)
        if part is not value and _problem(part) is not None
    ]
    if depth <= 0 or not inner:
        found[id(value)] = FailureTuple(value, name, parent)
        return
    for part_name, part in inner:
        if id(part) not in found:
            _look_into(part, part_name, value, depth - 1, found)


def _problem(value: Any) -> Exception | None:
    try:
        serialization.dumps(value)
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is the answer
        return problem
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isfunction(value):
        held = inspect.getclosurevars(value)
        yield from {**held.globals, **held.nonlocals}.items()
    elif is_dict(value):
        yield from ((repr(key), part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        items = cast("Iterable[Any]", value)
        yield from ((f"[{index}]", part) for index, part in enumerate(items))
    else:
        members: dict[str, Any] = getattr(value, "__dict__", {})
        yield from ((key, part) for key, part in members.items() if not key.startswith("__"))
