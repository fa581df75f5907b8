"""Shapes of values that users hand in; their contents are checked one by one afterwards."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeGuard


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    """Whether it is a dict, of anything."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list, of anything."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether it is a list or tuple, of anything."""
    return isinstance(value, (list, tuple))


def is_generator(value: object) -> TypeGuard[Generator[Any, Any, Any]]:
    """Whether it is a generator, of anything."""
    return isinstance(value, Generator)
