"""Messages with values of the right types and no sense, drawn from one seeded dice."""

from __future__ import annotations

import random
from collections.abc import Sequence

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

DEPTH_MAX = 4
EMPTY_SHARE = 0.4
KNOWN_SHARE = 0.7
_TEXTS = ("", "x", "CPU", "GPU", "CPU_group_0_ff", "a/b", "é" * 300, "127.0.0.1:1")
_ENUMS = (0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 1000)
_SIZES = (0, 1, 4, 16, 24, 28, 1000)
_NUMBERS: dict[int, Sequence[object]] = {
    FieldDescriptor.TYPE_DOUBLE: (0.0, -1.0, 1e300, float("nan"), float("inf")),
    FieldDescriptor.TYPE_FLOAT: (0.0, -1.0, float("nan"), float("inf")),
    FieldDescriptor.TYPE_UINT32: (0, 1, 2, 7, 2**32 - 1),
    FieldDescriptor.TYPE_FIXED32: (0, 1, 2, 7, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 1, 2, 10_000, 2**64 - 1),
    FieldDescriptor.TYPE_FIXED64: (0, 1, 2, 10_000, 2**64 - 1),
    FieldDescriptor.TYPE_INT32: (0, 1, 2, -1, 2**31 - 1, -(2**31)),
    FieldDescriptor.TYPE_SINT32: (0, 1, 2, -1, 2**31 - 1, -(2**31)),
    FieldDescriptor.TYPE_ENUM: _ENUMS,
    FieldDescriptor.TYPE_STRING: _TEXTS,
}
_LONG = (0, 1, 2, -1, 10_000, 2**63 - 1, -(2**63))


class Nonsense:
    """Fills messages. `known`: identities that mean something to whoever reads them."""

    def __init__(self, dice: random.Random, known: Sequence[bytes] = ()) -> None:
        self.dice = dice
        self.known = known

    def fill(self, message: Message, depth: int = 0) -> Message:
        """Sets about half of the fields, at every depth; returns the message."""
        for field in self._chosen(message, depth):
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                self._fill_map(message, field)
            elif field.is_repeated:
                self._fill_list(message, field, depth)
            elif field.message_type is not None:
                self.fill(getattr(message, field.name), depth + 1)
                getattr(message, field.name).SetInParent()
            else:
                setattr(message, field.name, self.scalar(field))
        return message

    def _chosen(self, message: Message, depth: int) -> list[FieldDescriptor]:
        """Of a oneof, one field: were all tried, the last would displace the others."""
        if depth > DEPTH_MAX:
            return []
        dice, fields = self.dice, message.DESCRIPTOR.fields
        chosen = [dice.choice(each.fields) for each in message.DESCRIPTOR.oneofs]
        chosen += [each for each in fields if each.containing_oneof is None]
        return [each for each in chosen if dice.random() >= EMPTY_SHARE]

    def _fill_map(self, message: Message, field: FieldDescriptor) -> None:
        key, value = field.message_type.fields_by_name.values()
        for _ in range(self.dice.randint(0, 3)):
            if value.message_type is None:
                getattr(message, field.name)[self.scalar(key)] = self.scalar(value)

    def _fill_list(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        rows = getattr(message, field.name)
        for _ in range(self.dice.randint(0, 3)):
            if field.message_type is not None:
                self.fill(rows.add(), depth + 1)
            else:
                rows.append(self.scalar(field))

    def scalar(self, field: FieldDescriptor) -> object:
        """A value that the field takes."""
        dice, kind = self.dice, field.type
        if kind == FieldDescriptor.TYPE_BYTES:
            if self.known and dice.random() < KNOWN_SHARE:
                return dice.choice(self.known)
            return dice.randbytes(dice.choice(_SIZES))
        if kind == FieldDescriptor.TYPE_BOOL:
            return dice.random() < 0.5
        return dice.choice(_NUMBERS.get(kind, _LONG))
