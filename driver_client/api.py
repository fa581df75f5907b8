"""Functions of the core API: get, put, wait, kill, get_actor, cluster questions."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_api.v1 import gcs_pb2 as gcs
from cluster_common.transport.endpoints import make_channel
from driver_client import exceptions, limits, placement_group, process
from driver_client.actor_handle import ActorHandle, handle_from_record
from driver_client.cluster_view import ask
from driver_client.core.options import WrongArgumentError
from driver_client.core.shapes import is_list
from driver_client.given_value import put_at
from driver_client.object_ref import ObjectRef, entry_of, open_entry
from driver_client.object_ref_generator import ObjectRefGenerator
from driver_client.objects import entry as entries
from driver_client.objects import serialization
from driver_client.objects.entry import Entry
from driver_client.shell.runtime import Runtime

_KILLED = "killed by shoal.kill"


def get(object_refs: Any, *, timeout: float | None = None) -> Any:
    """The value of a reference, or the values of a list of them.

    Raises:
        GetTimeoutError: not ready within `timeout` seconds; 0 polls, None is the only "no limit".
        RayError: the error a task ended with, as the user's class too.
        TypeError: the list holds something else than references.
        WrongArgumentError: neither a reference nor a list (a TypeError and a ValueError).
        ValueError: negative timeout.
    """
    if timeout is not None:
        _check_timeout(timeout)
    if isinstance(object_refs, ObjectRef):
        entry = entry_of(object_refs)  # pyright: ignore[reportUnknownArgumentType] - narrowed from Any
        if entry.state == entries.PENDING:
            _block([entry], timeout)
        return open_entry(entry)
    if not is_list(object_refs):
        if isinstance(object_refs, ObjectRefGenerator):
            return object_refs
        raise WrongArgumentError(
            f"get takes an ObjectRef or a list of them, not {_kind(object_refs)}"
        )
    for ref in object_refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"get takes ObjectRefs; the list holds {_kind(ref)}")
    wanted: list[Entry] = list(map(entry_of, object_refs))
    if any(entry.state == entries.PENDING for entry in wanted):
        _block(wanted, timeout)
    for entry in wanted:
        if entry.state == entries.ERROR:
            open_entry(entry)
    return [open_entry(entry) for entry in wanted]


def _block(wanted: list[Entry], timeout: float | None) -> None:
    runtime = process.get_runtime()
    fetch_borrowed(runtime, wanted)
    started_ns = time.perf_counter_ns()
    try:
        runtime.blocking.until_complete(wanted, timeout)
    except exceptions.GetTimeoutError as error:
        for entry in wanted:
            if entry.group_id and entry.state == entries.PENDING:
                raise _group_timeout(entry.group_id, timeout) from None
        raise error from None
    finally:
        runtime.events.waited("get", started_ns)


def _group_timeout(group_id: bytes, timeout: float | None) -> exceptions.GetTimeoutError:
    reason, message = placement_group.pending_reason(group_id)
    text = f"placement group {group_id.hex()} was not ready after {timeout:g} s"
    # The sentence begins with the token already.
    detail = message if message.startswith(reason) else f"{reason}: {message}"
    return exceptions.GetTimeoutError(f"{text}: {detail}" if reason else text, reason)


def fetch_borrowed(runtime: Runtime, wanted: list[Entry]) -> None:
    """Asks owners for the values of borrowed entries."""
    for entry in wanted:
        if type(entry.key) is bytes and entry.state == entries.PENDING:
            runtime.ownership.fetch(entry)


def put(value: Any, *, _owner: ActorHandle | None = None) -> ObjectRef[Any]:
    """A reference to a value that this process owns, or the actor `_owner` if one is given.

    Raises:
        TypeError: the value is a reference, or cannot be pickled; `_owner` is no actor.
        RuntimeError: `_owner` is dead.
    """
    if isinstance(value, ObjectRef):
        raise TypeError("put of an ObjectRef is not allowed: put the value, or a list with the ref")
    try:
        data, contained = serialization.dumps_with_references(value)
    except Exception as error:
        raise TypeError(f"put: the value {_kind(value)} cannot be pickled: {error}") from error
    runtime = process.get_runtime()
    if _owner is None:
        return runtime.put(data, contained)
    return put_at(runtime, _owner, data, contained, lambda owner: get(owner.__ray_ready__.remote()))


def wait(
    ray_waitables: list[Any],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[Any], list[Any]]:
    """(the first `num_returns` ready references in the list's order, the rest).

    A generator of references is ready when its next reference is there, or it is over. Fewer come
    when `timeout` (seconds; 0 polls, None no limit) ran out.

    Raises:
        TypeError: not a list of ObjectRefs and ObjectRefGenerators.
        ValueError: duplicates, `num_returns` not in 1 .. len, negative timeout.
    """
    refs = ray_waitables
    if not isinstance(refs, list):
        raise TypeError(f"wait takes a list of ObjectRefs, not {_kind(refs)}")
    if timeout is not None:
        _check_timeout(timeout)
    if not refs:
        return [], []
    try:
        wanted: list[Entry] = list(map(entry_of, refs))
    except AttributeError:
        other = next(ref for ref in refs if not hasattr(ref, "_entry"))
        raise TypeError(f"wait takes ObjectRefs; the list holds {_kind(other)}") from None
    if len(set(wanted)) != len(wanted):
        twice = next(ref for ref in refs if refs.count(ref) > 1)
        raise ValueError(f"wait takes different ObjectRefs; there are duplicates of {twice!r}")
    if not isinstance(num_returns, (int, float)):
        raise TypeError(f"num_returns must be a whole number, not {num_returns!r}")
    if not 1 <= num_returns <= len(refs):
        raise ValueError(f"num_returns must be in 1 .. {len(refs)}, not {num_returns}")
    runtime = process.get_runtime()
    if fetch_local or runtime.ownership.borrowed:
        fetch_borrowed(runtime, wanted)
    started_ns = time.perf_counter_ns()
    ready = runtime.blocking.until_count(wanted, num_returns, timeout)
    runtime.events.waited("wait", started_ns)
    return _split(refs, ready)


def _split(refs: list[Any], ready: list[int]) -> tuple[list[Any], list[Any]]:
    rest: list[Any] = []
    start = 0
    for position in ready:
        rest += refs[start:position]
        start = position + 1
    rest += refs[start:]
    return [refs[position] for position in ready], rest


def kill(actor: Any, *, no_restart: bool = True) -> None:
    """Ends an actor at once. When this returns (`no_restart=True`) its name is free.

    Raises:
        ValueError: not an actor handle.
    """
    if not isinstance(actor, ActorHandle):
        hint = "; shoal.cancel ends a task" if isinstance(actor, ObjectRef) else ""
        raise ValueError(  # noqa: TRY004 - Ray raises this
            f"kill takes an actor handle, not {_kind(actor)}{hint}"
        )
    runtime = process.get_runtime()
    facts = actor._facts  # noqa: SLF001 - the handle's own API  # pyright: ignore[reportPrivateUsage]
    if facts.owner_address == runtime.facts.own_address:
        runtime.io.call(_kill_own(runtime, facts.actor_id, no_restart=no_restart))
    elif facts.owner_address:
        runtime.io.call(_kill_at_owner(facts.owner_address, facts.actor_id, no_restart=no_restart))
    else:
        runtime.io.call(_kill_at_gcs(runtime, facts.actor_id, no_restart=no_restart))


async def _kill_own(runtime: Runtime, actor_id: bytes, *, no_restart: bool) -> None:
    await runtime.host().kill(actor_id, no_restart=no_restart, reason=_KILLED)


async def _kill_at_owner(address: str, actor_id: bytes, *, no_restart: bool) -> None:
    async with make_channel(address) as channel:
        request = pb.KillActorRequest(actor_id=actor_id, no_restart=no_restart, reason=_KILLED)
        link_call: Callable[..., Awaitable[pb.KillActorResponse]] = rpc.CoreWorkerServiceStub(
            channel
        ).KillActor
        try:
            await link_call(request, timeout=limits.GCS_CALL_TIMEOUT_S)
        except Exception as error:
            if not _is_rpc_error(error):
                raise


def _is_rpc_error(error: Exception) -> bool:
    return hasattr(error, "code") and hasattr(error, "details")


async def _kill_at_gcs(runtime: Runtime, actor_id: bytes, *, no_restart: bool) -> None:
    link = runtime.gcs()
    request = gcs.GcsKillActorRequest(actor_id=actor_id, no_restart=no_restart)
    await link.call(link.actors.KillActor, request)


def cancel(ref: Any, *, force: bool = False, recursive: bool = True) -> None:
    """Cancels the call that makes a reference; `get` on it then raises TaskCancelledError.

    A task that runs gets a KeyboardInterrupt; with `force` its worker is killed
    (WorkerCrashedError).
    A coroutine of an async actor is cancelled; other actor calls only while they wait. With
    `recursive`, what the call submitted is cancelled too. A call that is over is left alone.

    Raises:
        TypeError: not a reference.
        ValueError: `force` on an actor call.
    """
    completed: Callable[[], Any] | None = getattr(ref, "completed", None)  # of a generator
    target: Any = ref if completed is None else completed()
    if not isinstance(target, ObjectRef):
        hint = "; shoal.kill ends an actor" if isinstance(ref, ActorHandle) else ""
        raise TypeError(f"cancel takes an ObjectRef, not {_kind(ref)}{hint}")
    entry = entry_of(target)  # pyright: ignore[reportUnknownArgumentType] - narrowed from Any
    if force and entry.is_actor_call:
        raise ValueError("force=True is not allowed for actor calls: use shoal.kill on the actor")
    process.get_runtime().cancel(entry, force=force, recursive=recursive)


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """The actor of this name.

    Raises:
        ValueError (ActorHandleNotFoundError): there is none; empty name.
    """
    for what, text in (("name", name), ("namespace", namespace)):
        if text is None and what == "namespace":
            continue
        if not isinstance(text, str):
            raise WrongArgumentError(f"get_actor takes a text as {what}, not {text!r}")
        if not text:
            raise ValueError(f"get_actor takes a non-empty {what}, not {text!r}")
    runtime = process.get_runtime()
    space = namespace or runtime.facts.namespace
    runtime.io.call(runtime.names_settled())
    request = gcs.GetNamedActorRequest(name=name, namespace=space)
    answer = runtime.io.call(ask(runtime, lambda link: link.actors.GetNamedActor, request))
    if not answer.found:
        raise exceptions.ActorHandleNotFoundError(
            f"Failed to look up actor with name {name!r}: there is none in namespace {space!r}"
        )
    return handle_from_record(answer.actor.handle)


def list_named_actors(*, all_namespaces: bool = False) -> list[Any]:
    """Names of named actors that are not dead; with all namespaces: dicts of name and namespace."""
    runtime = process.get_runtime()
    request = gcs.ListNamedActorsRequest(
        namespace=runtime.facts.namespace, all_namespaces=all_namespaces
    )
    answer = runtime.io.call(ask(runtime, lambda link: link.actors.ListNamedActors, request))
    if all_namespaces:
        return [{"name": row.name, "namespace": row.namespace} for row in answer.names]
    return [row.name for row in answer.names]


def exit_actor() -> None:
    """Ends the actor that calls this, after its answer; it is not restarted.

    Raises:
        TypeError: not called inside an actor.
    """
    from driver_client.shell import leaving  # late: only actors need it

    runtime = process.runtime_if_any()
    if runtime is None or not runtime.facts.actor_id:
        raise TypeError("exit_actor API is called on a non-actor worker: it ends the calling actor")
    leaving.leave_actor("exit_actor() was called")


def _kind(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.80}"


def _check_timeout(timeout: Any) -> None:
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be None or a number of seconds, not {timeout!r}")
    if timeout < 0:
        raise ValueError(f"timeout must be None or 0 or more seconds, not {timeout}")
