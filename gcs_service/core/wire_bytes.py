"""Protobuf's wire format, where bytes are put together from parts that were encoded before."""

from __future__ import annotations

_LOW = 0x7F
_MORE = 0x80
_LENGTH_DELIMITED = 2


def varint(number: int) -> bytes:
    """A number of at least 0 as on the wire."""
    if number <= _LOW:
        return bytes((number,))
    out = bytearray()
    while number > _LOW:
        out.append(number & _LOW | _MORE)
        number >>= 7
    out.append(number)
    return bytes(out)


def number_tag(field: int) -> bytes:
    """Before a `varint` that is the value of this field."""
    return varint(field << 3)


def bytes_tag(field: int) -> bytes:
    """Before the length (a `varint`) and the bytes of this field: a string or a message."""
    return varint(field << 3 | _LENGTH_DELIMITED)
