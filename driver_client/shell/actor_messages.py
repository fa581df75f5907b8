"""Protobuf forms of an owned actor: the creation order and the public record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import types_pb2 as t
from driver_client.core.actor_spec import ActorSpec
from driver_client.shell.argument_references import add_references
from driver_client.shell.owner_services import OwnerServices

if TYPE_CHECKING:
    from driver_client.shell.owned_actor import OwnedActor


def creation_message(spec: ActorSpec, incarnation: int, services: OwnerServices) -> pb.CreateActor:
    """What a worker needs to run the constructor."""
    request = spec.key.request
    message = pb.CreateActor(
        actor_id=spec.actor_id,
        incarnation=incarnation,
        class_definition=pb.FunctionDefinition(
            hash=spec.class_body.hash,
            pickled=spec.class_body.pickled,
            name=spec.class_name,
            source_file=spec.class_body.source_file,
            without_events=spec.without_events,
        ),
        payload=spec.payload,
        max_concurrency=spec.max_concurrency,
        concurrency_groups=spec.concurrency_groups,
        is_async=spec.is_async,
        out_of_order=spec.out_of_order,
        name=spec.name,
        namespace=spec.namespace,
        placement_group_id=request.placement_group_id,
        capture_child_tasks=spec.capture_child_tasks,
        handle=spec.handle,
        job_id=spec.job_id,
        runtime_env_json=request.runtime_env_json,
        max_task_retries=spec.max_task_retries,
        sys_path=spec.sys_path,
        owner_id=services.owner_id,
        owner_address=services.own_address,
    )
    if spec.extra is not None:
        add_references(message.references, spec.extra)
    return message


def actor_record(actor: OwnedActor, services: OwnerServices, job_id: bytes) -> t.ActorRecord:
    """The public record of an owned actor."""
    life = actor.life
    spec = actor.spec
    record = t.ActorRecord(
        actor_id=spec.actor_id,
        job_id=job_id,
        owner_id=services.owner_id,
        owner_address=services.own_address,
        owner_node_id=services.worker_node_id,
        class_name=spec.class_name,
        name=spec.name,
        namespace=spec.namespace,
        state=life.state,
        incarnation=life.incarnation,
        restarts=life.restarts,
        placement_group_id=spec.key.request.placement_group_id,
        handle=spec.handle if spec.name else b"",
        start_time_ms=actor.start_ms,
        version=life.version,
        resources=spec.key.request.resources,
    )
    placement = life.placement
    if placement is not None:
        record.node_id = placement.node_id
        record.worker_id = placement.worker_id
        record.worker_address = placement.worker_address
        record.pid = placement.pid
    if life.death is not None:
        record.death.CopyFrom(life.death)
        record.end_time_ms = life.death.time_ms
    return record
