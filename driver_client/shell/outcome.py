"""Turns what user code returned or raised into a result for the caller."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import types_pb2 as t
from cluster_common import ids
from driver_client import exceptions, limits, process
from driver_client.core.shapes import is_generator
from driver_client.object_ref import entry_of
from driver_client.object_ref_generator import DynamicObjectRefGenerator
from driver_client.objects import serialization
from driver_client.shell.death_errors import actor_died_error
from driver_client.shell.function_store import LocalFunction

if TYPE_CHECKING:
    from driver_client.shell.actor_instance import ActorInstance

Outcome = tuple[bytes, int, "pb.ResultDetail | None", list[Any]]
"""(serialized value or error, ResultKind, detail, references inside the value)"""

_SINGLE = frozenset((int, float, str, bytes, bool, type(None)))
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - once, at import
_OWN_FOLDERS = (_HERE, os.path.join(os.path.dirname(_HERE), "objects"))  # noqa: PTH118, PTH120 - same


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
    if is_generator(value):  # `num_returns=1` of a generator function: its first item
        value = next(value, None)
    if type(value) in _SINGLE:
        data = serialization.dumps(value)
        _check_size(len(data), function)
        return data, pb.RESULT_KIND_VALUE, None, []
    data, refs = _pickled(value, function)
    _check_size(len(data), function)
    if not refs:
        return data, pb.RESULT_KIND_VALUE, None, refs
    detail = pb.ResultDetail()
    _note(detail, refs, 0)
    return data, pb.RESULT_KIND_VALUE, detail, refs


def _pickled(value: Any, function: LocalFunction) -> tuple[bytes, list[Any]]:
    try:
        return serialization.dumps_with_references(value)
    except Exception as error:
        raise TypeError(
            f"{function.call_name} returned a {type(value).__name__}, which cannot be pickled: "
            f"{error}"
        ) from error


def _put(item: Any) -> Any:
    data, contained = serialization.dumps_with_references(item)
    return process.get_runtime().put(data, contained)


def _several(value: Any, wanted: int, function: LocalFunction) -> Outcome:
    if is_generator(value):  # more than were promised are not made
        values: Sequence[Any] = list(islice(value, wanted))
    elif isinstance(value, Iterable):
        values = list(cast("Iterable[Any]", value))
    else:
        raise TypeError(
            f"{function.call_name} has num_returns={wanted} but returned one "
            f"{type(value).__name__}, which is no sequence"
        )
    if len(values) != wanted:
        raise ValueError(
            f"{function.call_name} has num_returns={wanted} but returned {len(values)} value(s)"
        )
    detail = pb.ResultDetail()
    all_refs: list[Any] = []
    for index, part in enumerate(values):
        data, refs = _pickled(part, function)
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


def exit_outcome(actor: pb.CreateActor, reason: str, node_id: str) -> Outcome:
    """What the caller of `exit_actor` gets, as every later call: the actor is dead."""
    death = t.ActorDeath(
        cause=t.ACTOR_DEATH_CAUSE_EXITED,
        message=reason,
        node_id=bytes.fromhex(node_id),
        owner_id=ids.owner_of(actor.actor_id),
        time_ms=time.time_ns() // 1_000_000,
    )
    name = actor.class_definition.name.rpartition(".")[2]
    error = actor_died_error(actor.actor_id, name, death)
    return exceptions.pickle_error(error), pb.RESULT_KIND_ERROR, None, []


def exit_status(wanted: SystemExit) -> int:
    """The exit status that `sys.exit` asked for, as the interpreter takes it."""
    code = wanted.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def last_outcome(outcome: Outcome) -> Outcome:
    """The same result; the caller is told that this worker takes no more calls."""
    data, kind, detail, refs = outcome
    detail = detail or pb.ResultDetail()
    detail.worker_exiting = True
    return data, kind, detail, refs


def error_outcome(
    error: BaseException, name: str, node_id: str, actor: ActorInstance | None = None
) -> Outcome:
    """The result of a call that raised: error class, remote traceback, and the error itself.

    `actor`: whose method it was.
    """
    # A nested call failed: its traceback is in the text, and its cause is what the user can catch.
    nested = isinstance(error, exceptions.RayTaskError)
    cause = error.cause if nested else error
    task_error = _task_error(error, name, node_id, actor)
    task_error.cause = cause
    task_error.cause_name = type(cause or error).__name__
    try:
        data = serialization.dumps(task_error)
        serialization.loads(data)
    except Exception as problem:  # noqa: BLE001 - user classes can fail in any way while pickled
        told = _task_error(error, name, node_id, actor)
        told.traceback_str += f"\n(the error cannot be pickled: {problem!r})"
        data = serialization.dumps(told)
    return data, pb.RESULT_KIND_ERROR, None, []


def _task_error(
    error: BaseException, name: str, node_id: str, actor: ActorInstance | None
) -> exceptions.RayTaskError:
    return exceptions.RayTaskError(
        name,
        _traceback_of(error),
        ip=_own_ip(),
        actor_repr=None if actor is None else actor.own_repr(),
        actor_id=None if actor is None else actor.message.actor_id.hex(),
        node_id=node_id,
        cause_name=type(error).__name__,
    )


def _own_ip() -> str:
    runtime = process.runtime_if_any()
    return "" if runtime is None else runtime.facts.own_address.rpartition(":")[0]


def _traceback_of(error: BaseException) -> str:
    """As Python prints it, with what it was raised from, without frames of the runtime."""
    told = traceback.TracebackException.from_exception(error)
    _hide_own_frames(told)
    return "".join(told.format())


def _hide_own_frames(told: traceback.TracebackException) -> None:
    told.stack[:] = [f for f in told.stack if not f.filename.startswith(_OWN_FOLDERS)]
    for part in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if part is not None:
            _hide_own_frames(part)


def flush_output() -> None:
    """Pushes what user code printed towards the agent before the process ends."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
