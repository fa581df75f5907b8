"""`put(value, _owner=actor)`: the actor's process owns the value, so it outlives who made it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_api.v1 import types_pb2 as t
from cluster_common.transport.endpoints import make_channel
from driver_client import exceptions, limits
from driver_client.actor_handle import ActorHandle, HandleFacts, client_in
from driver_client.object_ref import ObjectRef, entry_of
from driver_client.shell.runtime import Runtime

Place = tuple[str, bytes]
"""(address, worker id) of an actor's process."""


def put_at(
    runtime: Runtime,
    owner: Any,
    data: bytes,
    contained: list[Any],
    until_ready: Callable[[ActorHandle], Any],
) -> ObjectRef[Any]:
    """A reference to a serialized value that `owner` owns. `until_ready` waits for the actor.

    Raises:
        TypeError: `owner` is no actor handle.
        RuntimeError: the actor is dead, or cannot be reached.
    """
    if not isinstance(owner, ActorHandle):
        raise TypeError(f"_owner must be an actor handle, not {type(owner).__name__} {owner!r:.80}")
    facts = owner._facts  # noqa: SLF001 - the handle's own API  # pyright: ignore[reportPrivateUsage]
    if facts.actor_id == runtime.facts.actor_id:
        return runtime.put(data, contained)
    client_in(runtime, facts)
    place = runtime.io.call(_place(runtime, facts))
    try:
        if place is None:
            until_ready(owner)
            place = runtime.io.call(_place(runtime, facts))
    except exceptions.RayActorError as error:
        raise RuntimeError(f"{owner!r} cannot own a value: {error}") from error
    if place is None:
        raise RuntimeError(f"{owner!r} cannot own a value: it restarts just now")
    object_id = runtime.io.call(_give(runtime, place, data, contained))
    if object_id is None:
        raise RuntimeError(f"{owner!r} cannot own a value: its process at {place[0]} is gone")
    return runtime.ownership.resolve(object_id, place[0])


async def _place(runtime: Runtime, facts: HandleFacts) -> Place | None:
    host = runtime.host_if_any
    actor = host.get(facts.actor_id) if host is not None else None
    if actor is not None:
        placement = actor.life.placement
        alive = actor.life.state == t.ACTOR_STATE_ALIVE and placement is not None
        return (placement.worker_address, placement.worker_id) if alive and placement else None
    return client_in(runtime, facts).place


async def _give(runtime: Runtime, place: Place, data: bytes, contained: list[Any]) -> bytes | None:
    """The object's id; None when the process is not there any more."""
    address, worker_id = place
    request = pb.AdoptObjectRequest(
        receiver_id=worker_id, borrower_id=runtime.facts.owner_id, value=data
    )
    for ref in contained:
        inner = entry_of(ref)
        runtime.ownership.export(inner)
        request.contained.add(object_id=inner.object_id, owner_address=inner.owner_address)
    async with make_channel(address) as channel:
        adopt: Callable[..., Awaitable[pb.AdoptObjectResponse]] = rpc.CoreWorkerServiceStub(
            channel
        ).AdoptObject
        try:
            answer = await adopt(request, timeout=limits.GCS_CALL_TIMEOUT_S)
        except grpc.RpcError:
            return None
    return answer.object_id if answer.adopted else None
