"""Messages leave one process and arrive in another: nobody shares an object with its peer."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message


def copied(item: Any) -> Any:
    """What arrives at the other end. Records of ours are frozen; generated messages are not."""
    if isinstance(item, Message):
        return type(item).FromString(item.SerializeToString())
    fields = getattr(item, "__struct_fields__", ())
    if not fields:
        return item
    return type(item)(*(copied(getattr(item, name)) for name in fields))
