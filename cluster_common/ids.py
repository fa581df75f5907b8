"""Identities: fixed-size bytes, hex in text.

An owner (driver or worker) makes the ids of what it owns from its own id and one counter, so that
an id names its owner and needs no coordination:

    OwnerId (16) = WorkerId or driver id, random
    TaskId, ActorId, PlacementGroupId, LeaseId (24) = OwnerId + sequence (8, big endian)
    ObjectId (28) = TaskId + return index (4, big endian)

An actor id is the task id of its creation; return 0 of it is the object that counts its handles.
No randomness is fetched here: callers pass the random bytes in.
"""

from __future__ import annotations

from typing import NewType

ClusterId = NewType("ClusterId", bytes)
NodeId = NewType("NodeId", bytes)
OwnerId = NewType("OwnerId", bytes)
JobId = NewType("JobId", bytes)
TaskId = NewType("TaskId", bytes)
ActorId = NewType("ActorId", bytes)
PlacementGroupId = NewType("PlacementGroupId", bytes)
LeaseId = NewType("LeaseId", bytes)
ObjectId = NewType("ObjectId", bytes)

CLUSTER_ID_BYTES = 16
NODE_ID_BYTES = 16
OWNER_ID_BYTES = 16
JOB_ID_BYTES = 4
TASK_ID_BYTES = 24
OBJECT_ID_BYTES = 28
RETURN_ZERO = b"\0\0\0\0"


def task_id(owner: OwnerId, sequence: int) -> TaskId:
    """The id of the owner's task, actor, group or lease number `sequence` (below 2**64)."""
    return TaskId(owner + sequence.to_bytes(8, "big"))


def sequence_of(identity: bytes) -> int:
    """The owner's counter inside a task, actor, group, lease or object id."""
    return int.from_bytes(identity[OWNER_ID_BYTES:TASK_ID_BYTES], "big")


def owner_of(identity: bytes) -> OwnerId:
    """The owner inside a task, actor, group, lease or object id."""
    return OwnerId(identity[:OWNER_ID_BYTES])


def object_id(task: bytes, return_index: int = 0) -> ObjectId:
    """The id of return `return_index` of a task."""
    return ObjectId(task + return_index.to_bytes(4, "big"))


def task_of(identity: bytes) -> TaskId:
    """The task that makes this object."""
    return TaskId(identity[:TASK_ID_BYTES])


def return_index_of(identity: bytes) -> int:
    """Which return of its task an object is."""
    return int.from_bytes(identity[TASK_ID_BYTES:OBJECT_ID_BYTES], "big")


def job_id(number: int) -> JobId:
    """Jobs are numbered by the GCS from 1."""
    return JobId(number.to_bytes(JOB_ID_BYTES, "big"))


def parse_hex(text: str, size_bytes: int, what: str) -> bytes:
    """Bytes of a hex id.

    Raises:
        ValueError: not hex, or not `size_bytes` long; names `what` and the expected length.
    """
    try:
        value = bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{what} {text!r} is not hexadecimal") from None
    if len(value) != size_bytes:
        raise ValueError(f"{what} {text!r} has {len(text)} hex digits, {size_bytes * 2} are needed")
    return value
