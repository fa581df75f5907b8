"""How instances of a class travel, where they cannot be pickled as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driver_client.objects import serialization


def register_serializer(
    cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
) -> None:
    """This process writes instances of `cls` (not of subclasses) with `serializer` from now on.

    Args:
        cls: the class.
        serializer: makes of an instance something that can be pickled.
        deserializer: makes the instance again; travels with every value, so that readers need not
            register anything.

    Raises:
        TypeError: not a class, or not callable.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_serializer takes a class, not {cls!r}")
    for name, function in (("serializer", serializer), ("deserializer", deserializer)):
        if not callable(function):
            raise TypeError(f"{name} must be callable, not {function!r}")
    serialization.register(cls, serializer, deserializer)


def deregister_serializer(cls: type) -> None:
    """Forgets what was registered for `cls`; no effect if nothing was."""
    serialization.deregister(cls)
