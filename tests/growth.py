"""Which containers of an object and of all it holds grow: finds tables that nobody caps."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

OURS = ("driver_client", "gcs_service", "raylet_agent", "cluster_common")
_CONTAINERS = (dict, list, set, deque)


def sizes(root: object) -> dict[str, int]:
    """Sum of the lengths of all containers below `root`, by class and attribute."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    todo: list[tuple[str, object]] = [("", root)]
    while todo:
        name, value = todo.pop()
        if id(value) in seen or isinstance(value, type | types.ModuleType):
            continue
        seen.add(id(value))
        if isinstance(value, _CONTAINERS):
            found[name] = found.get(name, 0) + len(value)
        if isinstance(value, (*_CONTAINERS, tuple)):
            todo += [(f"{name}[]", each) for each in _members(value)]
        elif isinstance(value, types.MethodType):
            todo.append((name, value.__self__))
        elif isinstance(value, types.FunctionType):
            todo += [(name, cell.cell_contents) for cell in value.__closure__ or () if _full(cell)]
        elif type(value).__module__.startswith(OURS):
            kind = type(value).__qualname__
            todo += [(f"{kind}.{key}", each) for key, each in _attributes(value)]
    return found


def grown(before: Mapping[str, int], after: Mapping[str, int], slack: int = 0) -> dict[str, str]:
    """What is larger by more than `slack`: name -> both lengths."""
    return {
        name: f"{before.get(name, 0)} -> {length}"
        for name, length in sorted(after.items())
        if length > before.get(name, 0) + slack
    }


def _members(value: Any) -> Iterable[object]:
    return [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)


def _attributes(value: object) -> Iterable[tuple[str, object]]:
    yield from vars(value).items() if hasattr(value, "__dict__") else ()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, slot) and not slot.startswith("__"):
                yield slot, getattr(value, slot)
    for field in getattr(value, "__struct_fields__", ()):
        yield field, getattr(value, field)


def _full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell says so only when it is looked into
    except ValueError:
        return False
    return True
