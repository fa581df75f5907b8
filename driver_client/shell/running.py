"""What runs on this thread or coroutine just now: the facts behind `get_runtime_context`."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from driver_client.shell.function_store import LocalFunction
    from driver_client.shell.peer_stream import PeerStream


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


def call_of(stream: PeerStream, sequence: int, function: LocalFunction) -> Running:
    """What `get_runtime_context` says during this call."""
    return Running(
        stream.sender_id + sequence.to_bytes(8, "big"),
        function.call_name,
        function,
        function.placement_group_id,
        function.capture_child_tasks,
    )


cancelled: set[bytes] = set()
"""Tasks that run and were asked to stop: for code that looks (`is_canceled`)."""

current: contextvars.ContextVar[Running | None] = contextvars.ContextVar("running", default=None)

NO_GROUP = (b"", False)
actor_group: tuple[bytes, bool] = NO_GROUP
"""The placement group of this worker's actor, and whether what the actor submits goes there too."""


def group_now() -> tuple[bytes, bool]:
    """The group around the code that asks, and whether what it submits goes there too.

    Method calls name no group, and an actor's own threads are no calls: theirs is the actor's.
    """
    task = current.get()
    if task is None or not task.placement_group_id:
        return actor_group
    return task.placement_group_id, task.capture_child_tasks
