"""Values as bytes. Opened in workers and drivers only.

Plain pickle (C) is tried first: it costs a fifth of cloudpickle. It must not be used for what lives
in `__main__` or in a function: those are written by reference and could not be found elsewhere. So
its output is searched for the module's name, and anything it refuses goes to cloudpickle.

Layout: a pickle (first byte 0x80), or, when the value has large buffers (numpy), 0x01, a count, the
lengths, the pickle, then each buffer at a multiple of 64 bytes, read back without copying.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
import threading
from collections import ChainMap
from collections.abc import Callable
from typing import Any, ClassVar

import cloudpickle

_PROTOCOL = 5
_OUT_OF_BAND = 1
_ALIGNMENT = 64
_BUFFER_BYTES_MIN = 4096
_MAIN = (b"__main__", b"__mp_main__")
_PLAIN = frozenset((int, float, str, bytes, bool, type(None)))


_reducers: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
"""How this process writes classes for which the user said so."""


def register(
    class_: type, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
) -> None:
    """From now on this process writes instances of exactly this class with `serializer`."""

    def reduce(value: Any) -> tuple[Any, ...]:
        return deserializer, (serializer(value),)

    _reducers[class_] = reduce


def deregister(class_: type) -> None:
    """Instances are pickled by themselves again; no effect if nothing was registered."""
    _reducers.pop(class_, None)


class _Collector(threading.local):
    """References met while a value is written or read on this thread."""

    refs: list[Any] | None = None


_collector = _Collector()


def note_reference(ref: object) -> None:
    """Called by references while they are pickled or rebuilt."""
    refs = _collector.refs
    if refs is not None:
        refs.append(ref)


def dumps(value: object) -> bytes:
    """Bytes of a value; references inside are not reported (use `dumps_with_references`)."""
    if type(value) in _PLAIN:
        return pickle.dumps(value, _PROTOCOL)
    buffers: list[pickle.PickleBuffer] = []

    def take(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _BUFFER_BYTES_MIN:
            return True
        buffers.append(buffer)
        return False

    data = _pickle(value, take, buffers)
    return _with_buffers(data, buffers) if buffers else data


def _pickle(value: object, take: Any, buffers: list[pickle.PickleBuffer]) -> bytes:
    try:
        if _reducers:
            data = _with_reducers(value, take)
        else:
            data = pickle.dumps(value, _PROTOCOL, buffer_callback=take)
    except Exception:  # noqa: BLE001 - whatever plain pickle cannot do, cloudpickle may
        buffers.clear()
        return _cloudpickle(value, take)
    if _MAIN[0] in data or _MAIN[1] in data:
        buffers.clear()
        return _cloudpickle(value, take)
    return data


def _table(others: Any) -> Any:
    """What was registered, live, before others."""
    return ChainMap(_reducers, others)


def _with_reducers(value: object, take: Any) -> bytes:
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, _PROTOCOL, buffer_callback=take)
    pickler.dispatch_table = _table(copyreg.dispatch_table)
    pickler.dump(value)
    return stream.getvalue()


class _CodePickler(cloudpickle.CloudPickler):
    """Cloudpickle, after what users registered."""

    dispatch_table: ClassVar[Any] = _table(cloudpickle.CloudPickler.dispatch_table)


def _cloudpickle(value: object, take: Any) -> bytes:
    stream = io.BytesIO()
    pickler: Any = _CodePickler(stream, _PROTOCOL, buffer_callback=take)
    pickler.dump(value)
    return stream.getvalue()


def dumps_by_value(value: object) -> bytes:
    """Bytes of code (functions, classes) or of anything else, as cloudpickle writes them."""
    return _cloudpickle(value, None)


def dumps_with_references(value: object) -> tuple[bytes, list[Any]]:
    """Bytes of a value and the references inside it."""
    before = _collector.refs
    refs: list[Any] = []
    _collector.refs = refs
    try:
        return dumps(value), refs
    finally:
        _collector.refs = before


def loads(data: bytes | memoryview) -> Any:
    """The value; buffers point into `data` and are read-only."""
    if data[0] != _OUT_OF_BAND:
        return pickle.loads(data)
    view = memoryview(data)
    (count,) = struct.unpack_from("<I", view, 4)
    lengths = struct.unpack_from(f"<{count + 1}Q", view, 8)
    offset = 8 + 8 * (count + 1)
    body = view[offset : offset + lengths[0]]
    offset += lengths[0]
    parts: list[memoryview] = []
    for length in lengths[1:]:
        offset = _aligned(offset)
        parts.append(view[offset : offset + length])
        offset += length
    return pickle.loads(body, buffers=parts)


def loads_with_references(data: bytes) -> tuple[Any, list[Any]]:
    """The value and the references rebuilt inside it."""
    before = _collector.refs
    refs: list[Any] = []
    _collector.refs = refs
    try:
        return loads(data), refs
    finally:
        _collector.refs = before


def _with_buffers(body: bytes, buffers: list[pickle.PickleBuffer]) -> bytes:
    raws = [buffer.raw() for buffer in buffers]
    lengths = [len(body), *(raw.nbytes for raw in raws)]
    head = struct.pack(f"<BxxxI{len(lengths)}Q", _OUT_OF_BAND, len(raws), *lengths)
    parts: list[bytes | memoryview] = [head, body]
    offset = len(head) + len(body)
    for raw in raws:
        padding = _aligned(offset) - offset
        parts.append(b"\0" * padding)
        parts.append(raw)
        offset += padding + raw.nbytes
    return b"".join(parts)


def _aligned(offset: int) -> int:
    return (offset + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


NONE = dumps(None)
"""The most frequent result."""
