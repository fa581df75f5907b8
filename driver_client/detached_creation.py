"""Asks the GCS to host an actor, at once, even when the constructor's arguments are not there yet.

Until they are, the actor is known (its name is taken, lists show it) and belongs to its creator:
if that ends first, the GCS says so in the actor's record (FIELD_REPORTS O-12).
"""

from __future__ import annotations

import asyncio
import math

from cluster_api.v1 import agent_pb2 as agent_pb
from cluster_api.v1 import gcs_pb2 as gcs
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from driver_client.core.actor_spec import ActorSpec
from driver_client.shell.actor_messages import creation_message
from driver_client.shell.dependencies import Dependencies
from driver_client.shell.environments import packages_of
from driver_client.shell.runtime import Runtime


async def create_detached(
    runtime: Runtime, spec: ActorSpec, record: t.ActorRecord, *, get_if_exists: bool
) -> gcs.CreateDetachedActorResponse:
    """Creates it, or finds who has the name. Missing arguments follow by themselves. I/O thread."""
    ready = asyncio.Event()
    waits = spec.extra is not None and not runtime.dependencies.wait(spec.extra, ready.set)
    request = gcs.CreateDetachedActorRequest(
        actor=record,
        max_restarts=spec.max_restarts,
        get_if_exists=get_if_exists,
        scheduling=_scheduling(spec.key.request),
    )
    if waits:
        await runtime.leases().known_at_home()
        request.arguments_pending = True
    _fill_in(request, runtime, spec)
    link = runtime.gcs()
    packages = packages_of(spec.key.request.runtime_env_json)
    await runtime.environments.uploads.keep_for_actor(packages, spec.actor_id)
    answer = await link.call(link.actors.CreateDetachedActor, request)
    if packages and not answer.created:
        await runtime.environments.uploads.forget_actor(spec.actor_id)
    if waits and answer.created:
        runtime.io.keeper.start(_follow(runtime, spec, request, ready), "detached arguments")
    return answer


async def _follow(
    runtime: Runtime,
    spec: ActorSpec,
    request: gcs.CreateDetachedActorRequest,
    ready: asyncio.Event,
) -> None:
    await ready.wait()
    request.arguments_pending = False
    _fill_in(request, runtime, spec)
    link = runtime.gcs()
    await link.call(link.actors.CreateDetachedActor, request, reconnect_s=math.inf)


def _fill_in(request: gcs.CreateDetachedActorRequest, runtime: Runtime, spec: ActorSpec) -> None:
    """What to start, with the arguments as values: the creator may be gone at the next restart."""
    lease = spec.key.request
    start = ns.StartDetachedActor(
        actor_id=spec.actor_id,
        job_id=spec.job_id,
        namespace=spec.namespace,
        name=spec.name,
        resources=lease.resources,
        placement_resources=lease.placement_resources,
        placement_group_id=lease.placement_group_id,
        bundle_index=lease.bundle_index,
        runtime_env_json=lease.runtime_env_json,
        class_name=spec.class_name,
        driver_address=runtime.facts.driver_address,
    )
    error = Dependencies.failure(spec.extra) if spec.extra is not None else None
    if error is not None:
        request.arguments_pending = False
        request.argument_error = error
    elif not request.arguments_pending:
        creation = creation_message(spec, 0, runtime.services)
        creation.detached = True
        creation.owner_address = ""
        start.creation_spec = creation.SerializeToString()
    request.start.CopyFrom(start)


def _scheduling(lease: agent_pb.LeaseRequest) -> gcs.SchedulingRequest:
    return gcs.SchedulingRequest(
        selector=lease.selector,
        fallback=lease.fallback,
        affinity_node_id=lease.affinity_node_id,
        affinity_soft=lease.affinity_soft,
        spread=lease.strategy == agent_pb.SCHEDULING_STRATEGY_SPREAD,
    )
