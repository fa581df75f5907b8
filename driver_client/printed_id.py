"""Ids as Ray's users hold, print and make them.

Only their size differs from Ray's (`cluster_common.ids`); all are bytes, hex in text.
"""

from __future__ import annotations

import secrets
from typing import ClassVar, Self

from cluster_common import ids


class PrintedId:
    """An id with the name of its kind; equal to the same id of the same kind."""

    SIZE: ClassVar[int] = ids.TASK_ID_BYTES

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    @classmethod
    def size(cls) -> int:
        """Its length in bytes."""
        return cls.SIZE

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """The id of this text.

        Raises:
            ValueError: not hex, or not of this kind's length.
        """
        return cls(ids.parse_hex(text, cls.SIZE, cls.__name__))

    @classmethod
    def from_random(cls) -> Self:
        """An id that nothing has."""
        return cls(secrets.token_bytes(cls.SIZE))

    @classmethod
    def nil(cls) -> Self:
        """The id that stands for none."""
        return cls(b"\xff" * cls.SIZE)

    def is_nil(self) -> bool:
        """Whether it stands for none."""
        return self._value == b"\xff" * self.SIZE

    def hex(self) -> str:
        """For logs and questions."""
        return self._value.hex()

    def binary(self) -> bytes:
        """The id itself."""
        return self._value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._value.hex()})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        return type(self), (self._value,)


class ActorID(PrintedId):
    """Of an actor."""


class TaskID(PrintedId):
    """Of a task or an actor's call."""


class PlacementGroupID(PrintedId):
    """Of a placement group."""


class JobID(PrintedId):
    """Of a driver's work."""

    SIZE: ClassVar[int] = ids.JOB_ID_BYTES

    @classmethod
    def from_int(cls, number: int) -> Self:
        """The id of the cluster's job of this number."""
        return cls(number.to_bytes(cls.SIZE, "big"))

    def int(self) -> int:
        """The number."""
        return int.from_bytes(self._value, "big")


class NodeID(PrintedId):
    """Of one life of an agent."""

    SIZE: ClassVar[int] = ids.NODE_ID_BYTES


class WorkerID(PrintedId):
    """Of a worker or driver process."""

    SIZE: ClassVar[int] = ids.OWNER_ID_BYTES


class UniqueID(PrintedId):
    """Of anything."""

    SIZE: ClassVar[int] = ids.OWNER_ID_BYTES


class ObjectID(PrintedId):
    """Of an object, apart from a reference to it."""

    SIZE: ClassVar[int] = ids.OBJECT_ID_BYTES
