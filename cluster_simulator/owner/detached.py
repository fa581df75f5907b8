"""Detached actors as a driver asks for them: by name, hosted by the GCS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from cluster_common.resources import RESOURCE_UNIT
from gcs_service.core.moment import Moment

if TYPE_CHECKING:
    from cluster_simulator.owner.owner_process import OwnerProcess
    from cluster_simulator.world import World


def create(owner: OwnerProcess, name: str, *, cpus: int = 1, max_restarts: int = -1) -> bytes:
    """Asks for one; who has the name keeps it."""
    actor_id = owner.next_id()
    record = t.ActorRecord(
        actor_id=actor_id, name=name, owner_id=owner.owner_id, job_id=owner.job_id, detached=True
    )
    start = ns.StartDetachedActor(
        actor_id=actor_id,
        name=name,
        job_id=owner.job_id,
        resources=t.ResourceSet(amounts={"CPU": cpus * RESOURCE_UNIT}),
        bundle_index=-1,
    )
    request = g.CreateDetachedActorRequest(actor=record, start=start, max_restarts=max_restarts)
    owner.ask(lambda core: core.actor_desk.create_detached, (request,), lambda _: None)
    return actor_id


def kill(world: World, name: str) -> None:
    """Ends the holder of a name for good, if there is one."""
    gcs = world.gcs
    if gcs is None:
        return
    core = gcs.core
    holder = core.actors.by_name("", name)
    if holder is None:
        return

    def killed(actor_id: bytes, at: Moment) -> Any:
        return core.detached.kill(actor_id, no_restart=True, graceful=False, at=at)

    gcs.call(killed, (holder.actor_id,), lambda _: None, lambda: None)
