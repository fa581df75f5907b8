"""One detached actor: its machine, what to start, and where it is being started."""

from __future__ import annotations

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from cluster_common import actor_lifecycle as life
from gcs_service.core.actor_placing import Target


class DetachedActor:
    """`target` is the node that was told to start it, `retry_*` when to look for another."""

    __slots__ = (
        "first",
        "is_infeasible",
        "machine",
        "request",
        "retry_delay_ms",
        "retry_due_ms",
        "target",
    )

    def __init__(self, request: g.CreateDetachedActorRequest) -> None:
        self.request = request
        self.first = request.actor
        self.machine = life.ActorLifecycle(request.actor.actor_id, request.max_restarts)
        self.target: Target | None = None
        self.retry_delay_ms = 0
        self.retry_due_ms = 0
        self.is_infeasible = False

    @property
    def node_id(self) -> bytes:
        """Where this incarnation runs or was sent; empty while it waits."""
        if self.machine.placement is not None:
            return self.machine.placement.node_id
        return b"" if self.target is None else self.target.node_id

    def record(self) -> t.ActorRecord:
        """The public record."""
        machine = self.machine
        record = t.ActorRecord()
        record.CopyFrom(self.first)
        record.detached = True
        record.owner_address = ""
        record.state = machine.state
        record.incarnation, record.restarts = machine.incarnation, machine.restarts
        record.preempted_restarts = machine.preempted_restarts
        record.version = machine.version
        if machine.placement is not None:
            record.node_id, record.worker_id = (
                machine.placement.node_id,
                machine.placement.worker_id,
            )
            record.worker_address, record.pid = (
                machine.placement.worker_address,
                machine.placement.pid,
            )
        elif self.target is not None:
            record.node_id = self.target.node_id
        if machine.death is not None:
            record.death.CopyFrom(machine.death)
            record.end_time_ms = machine.death.time_ms
        return record


def placement_of(
    node_id: bytes, said: ns.DetachedActorEvent | ns.DetachedActorHeld
) -> life.Placement:
    """Where an agent says that it runs."""
    return life.Placement(node_id, said.worker_id, said.worker_address, said.pid)
