"""What it takes to start an actor, as its owner keeps it for restarts."""

from __future__ import annotations

import msgspec

from driver_client.core.call import CallExtra, FunctionBody
from driver_client.core.scheduling_key import SchedulingKey


class ActorSpec(msgspec.Struct, frozen=True):
    """One actor's class, arguments and options.

    Attributes:
        payload: serialized (args, kwargs) of the constructor.
        extra: references among them, held as long as a restart may need them.
        handle: bytes from which any process builds a handle.
    """

    actor_id: bytes
    class_body: FunctionBody
    class_name: str
    payload: bytes
    extra: CallExtra | None
    key: SchedulingKey
    max_restarts: int
    max_task_retries: int
    max_concurrency: int
    concurrency_groups: dict[str, int]
    is_async: bool
    out_of_order: bool
    without_events: bool
    name: str
    namespace: str
    handle: bytes
    capture_child_tasks: bool
    job_id: bytes
    sys_path: tuple[str, ...]
