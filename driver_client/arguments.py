"""Serializes the arguments of a call."""

from __future__ import annotations

from typing import Any

from driver_client import exceptions, limits
from driver_client.core.call import CallExtra
from driver_client.object_ref import AnyRef
from driver_client.objects import serialization


def pack(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, CallExtra | None]:
    """(payload, what only calls with references have).

    References that are arguments themselves are replaced by their values before the call;
    references inside other arguments stay references.

    Raises:
        TypeError: an argument cannot be pickled; names it.
        ObjectStoreFullError: the arguments are too large together.
    """
    if not args and not kwargs:
        return b"", None
    top: list[tuple[int, Any]] = []
    for position, value in enumerate(args):
        if type(value) is AnyRef:
            top.append((position, value))
    if kwargs:
        for position, value in enumerate(kwargs.values(), len(args)):
            if type(value) is AnyRef:
                top.append((position, value))
    if top:
        args = tuple(None if type(value) is AnyRef else value for value in args)
        kwargs = {k: None if type(v) is AnyRef else v for k, v in kwargs.items()}
    try:
        payload, contained = serialization.dumps_with_references((args, kwargs))
    except Exception as error:
        raise TypeError(_unpicklable(args, kwargs, error)) from error
    if len(payload) > limits.OBJECT_BYTES_MAX:
        raise exceptions.ObjectStoreFullError(
            f"the arguments have {len(payload)} bytes together; at most {limits.OBJECT_BYTES_MAX} "
            "travel with a call"
        )
    if not top and not contained:
        return payload, None
    return payload, CallExtra(top, contained)


def _unpicklable(args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> str:
    named = [(f"argument {i}", value) for i, value in enumerate(args)]
    named += [(f"argument {name!r}", value) for name, value in kwargs.items()]
    for name, value in named:
        try:
            serialization.dumps(value)
        except Exception as problem:  # noqa: BLE001 - looking for the culprit
            return f"{name} ({type(value).__name__}) cannot be pickled: {problem}"
    return f"the arguments cannot be pickled: {error}"
