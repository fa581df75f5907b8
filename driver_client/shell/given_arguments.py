"""The arguments of a call as its function gets them."""

from __future__ import annotations

from typing import Any

from driver_client.objects import serialization


def arguments_of(payload: bytes, detail: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, references replaced by their values."""
    if not payload:
        return (), {}
    args, kwargs = serialization.loads(payload)
    if detail is None or not detail.references:
        return args, kwargs
    flat = list(args)
    names = list(kwargs)
    for reference in detail.references:
        value = serialization.loads(reference.value)
        if reference.argument < len(flat):
            flat[reference.argument] = value
        else:
            kwargs[names[reference.argument - len(flat)]] = value
    return tuple(flat), kwargs
