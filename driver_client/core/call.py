"""What a remote function or method is, apart from one call of it; and the record of one call.

A call record is a plain tuple on the hot path (CALIBRATION section 4):
    (task sequence, CallTemplate, payload bytes, Entry, CallExtra or None)
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from driver_client import limits
from driver_client.objects.entry import Entry


class FunctionBody(msgspec.Struct, frozen=True, gc=False):
    """A pickled function or class, exported once per peer by its hash."""

    hash: bytes
    pickled: bytes
    name: str
    source_file: str = ""


def function_body(pickled: bytes, name: str, source_file: str = "") -> FunctionBody:
    """A body with its content hash (blake2b, 16 bytes)."""
    digest = hashlib.blake2b(pickled, digest_size=16).digest()
    return FunctionBody(digest, pickled, name, source_file)


class CallTemplate:
    """Everything that calls of one function with the same options share. Compared by identity."""

    __slots__ = (
        "backpressure",
        "body",
        "call_name",
        "capture_child_tasks",
        "concurrency_group",
        "dynamic",
        "max_calls",
        "max_retries",
        "method_name",
        "num_returns",
        "placement_group_id",
        "retry_exceptions",
        "streaming",
        "without_events",
    )

    def __init__(
        self,
        *,
        body: FunctionBody | None = None,
        method_name: str = "",
        call_name: str = "",
        num_returns: int = 1,
        max_retries: int = limits.TASK_RETRIES_DEFAULT,
        retry_exceptions: bool | tuple[type[BaseException], ...] = False,
        concurrency_group: str = "",
        placement_group_id: bytes = b"",
        capture_child_tasks: bool = False,
        streaming: bool = False,
        dynamic: bool = False,
        backpressure: int = 0,
        max_calls: int = 0,
        without_events: bool = False,
    ) -> None:
        self.without_events = without_events
        self.streaming = streaming
        self.dynamic = dynamic
        self.backpressure = backpressure
        self.max_calls = max_calls
        self.body = body
        self.method_name = method_name
        self.call_name = call_name or method_name or (body.name if body else "")
        self.num_returns = num_returns
        self.max_retries = max_retries
        self.retry_exceptions = retry_exceptions
        self.concurrency_group = concurrency_group
        self.placement_group_id = placement_group_id
        self.capture_child_tasks = capture_child_tasks


def returns_of(option: Any) -> dict[str, Any]:
    """Template arguments of a `num_returns` option: None, a number, "streaming" or "dynamic"."""
    if option == "streaming":
        return {"num_returns": 1, "streaming": True}
    if option == "dynamic":
        return {"num_returns": 1, "dynamic": True}
    return {"num_returns": 1 if option is None else option}


class CallExtra:
    """What only some calls have: references among their arguments."""

    __slots__ = ("arguments", "contained", "unready")

    def __init__(self, arguments: list[tuple[int, Any]], contained: list[Any]) -> None:
        self.arguments = arguments
        """(position among the arguments, ObjectRef): replaced by their values before sending."""
        self.contained = contained
        """References inside arguments: kept alive until the call is over."""
        self.unready = 0
        """How many of `arguments` are not complete yet."""


CallRecord = tuple[int, CallTemplate, bytes, Entry, "CallExtra | None"]
