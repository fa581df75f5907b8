"""Ids as Ray's users hold and print them."""

from __future__ import annotations


class PrintedId:
    """An id with the name of its kind; equal to the same id of the same kind."""

    def __init__(self, kind: str, value: bytes) -> None:
        self._kind = kind
        self._value = value

    def hex(self) -> str:
        """For logs and questions."""
        return self._value.hex()

    def binary(self) -> bytes:
        """The id itself."""
        return self._value

    def __repr__(self) -> str:
        return f"{self._kind}({self._value.hex()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrintedId) and (other._kind, other._value) == (
            self._kind,
            self._value,
        )

    def __hash__(self) -> int:
        return hash(self._value)
