"""Turns what user code returned or raised into a result for the caller."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from cluster_api.v1 import core_worker_pb2 as pb
from driver_client import exceptions, limits, process
from driver_client.object_ref import entry_of
from driver_client.object_ref_generator import DynamicObjectRefGenerator
from driver_client.objects import serialization
from driver_client.shell.function_store import LocalFunction

Outcome = tuple[bytes, int, "pb.ResultDetail | None", list[Any]]
"""(serialized value or error, ResultKind, detail, references inside the value)"""

_SINGLE = frozenset((int, float, str, bytes, bool, type(None)))
_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - once, at import


def outcome_of(value: Any, function: LocalFunction) -> Outcome:
    """The result of a call that returned.

    Raises:
        ValueError: the function promised several values and returned something else.
        ObjectStoreFullError: the value is too large.
        Exception: the value cannot be pickled.
    """
    if function.dynamic:
        value = DynamicObjectRefGenerator([_put(item) for item in value])
    wanted = function.num_returns
    if wanted > 1:
        return _several(value, wanted, function)
    if type(value) in _SINGLE:
        data = serialization.dumps(value)
        _check_size(len(data), function)
        return data, pb.RESULT_KIND_VALUE, None, []
    data, refs = serialization.dumps_with_references(value)
    _check_size(len(data), function)
    if not refs:
        return data, pb.RESULT_KIND_VALUE, None, refs
    detail = pb.ResultDetail()
    _note(detail, refs, 0)
    return data, pb.RESULT_KIND_VALUE, detail, refs


def _put(item: Any) -> Any:
    data, contained = serialization.dumps_with_references(item)
    return process.get_runtime().put(data, contained)


def _several(value: Any, wanted: int, function: LocalFunction) -> Outcome:
    try:
        values: Sequence[Any] = list(value)
    except TypeError:
        values = [value]
    if len(values) != wanted:
        raise ValueError(
            f"{function.call_name} has num_returns={wanted} but returned {len(values)} value(s)"
        )
    detail = pb.ResultDetail()
    all_refs: list[Any] = []
    for index, part in enumerate(values):
        data, refs = serialization.dumps_with_references(part)
        detail.values.append(data)
        _note(detail, refs, index)
        all_refs += refs
    _check_size(sum(map(len, detail.values)), function)
    return b"", pb.RESULT_KIND_MULTIPLE, detail, all_refs


def _check_size(size: int, function: LocalFunction) -> None:
    if size > limits.OBJECT_BYTES_MAX:
        raise exceptions.ObjectStoreFullError(
            f"{function.call_name} returned {size} bytes; at most {limits.OBJECT_BYTES_MAX} travel"
        )


def _note(detail: pb.ResultDetail, refs: list[Any], index: int) -> None:
    for ref in refs:
        entry = entry_of(ref)
        detail.contained.add(
            object_id=entry.object_id, owner_address=entry.owner_address, return_index=index
        )


def cancelled_outcome() -> Outcome:
    """The result of a call that was cancelled while it ran."""
    return b"", pb.RESULT_KIND_CANCELLED, None, []


def exit_outcome() -> Outcome:
    """What the caller of `exit_actor` gets."""
    return serialization.NONE, pb.RESULT_KIND_VALUE, None, []


def last_outcome(outcome: Outcome) -> Outcome:
    """The same result; the caller is told that this worker takes no more calls."""
    data, kind, detail, refs = outcome
    detail = detail or pb.ResultDetail()
    detail.worker_exiting = True
    return data, kind, detail, refs


def error_outcome(error: BaseException, name: str, node_id: str) -> Outcome:
    """The result of a call that raised: error class, remote traceback, and the error itself."""
    # A nested call failed: its traceback is in the text, and its cause is what the user can catch.
    nested = isinstance(error, exceptions.RayTaskError)
    cause = error.cause if nested else error
    task_error = exceptions.RayTaskError(
        name, _traceback_of(error), cause, os.getpid(), node_id, type(cause or error).__name__
    )
    try:
        data = serialization.dumps(task_error)
        serialization.loads(data)
    except Exception as problem:  # noqa: BLE001 - user classes can fail in any way while pickled
        text = f"{_traceback_of(error)}\n(the error cannot be pickled: {problem!r})"
        data = serialization.dumps(
            exceptions.RayTaskError(name, text, None, os.getpid(), node_id, type(error).__name__)
        )
    return data, pb.RESULT_KIND_ERROR, None, []


def _traceback_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_OWN_FOLDER)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(own)]
    lines += traceback.format_exception_only(type(error), error)
    return "".join(lines)


def flush_output() -> None:
    """Pushes what user code printed towards the agent before the process ends."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
