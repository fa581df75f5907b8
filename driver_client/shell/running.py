"""What runs on this thread or coroutine just now: the facts behind `get_runtime_context`."""

from __future__ import annotations

import contextvars
from typing import Protocol

import msgspec


class Named(Protocol):
    """A function, or an actor while it is constructed."""

    full_name: str


class Running(msgspec.Struct, frozen=True, gc=False):
    """One call being executed."""

    task_id: bytes
    name: str
    function: Named
    placement_group_id: bytes
    capture_child_tasks: bool


cancelled: set[bytes] = set()
"""Tasks that run and were asked to stop: for code that looks (`is_canceled`)."""

current: contextvars.ContextVar[Running | None] = contextvars.ContextVar("running", default=None)
