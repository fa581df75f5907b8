"""Detached actors on this node: the GCS hosts them, the agent leases and creates on its behalf."""

from __future__ import annotations

import msgspec

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent.core.effects import Effect, LabelOutput, SendToGcs, SendToWorker
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.lease import Lease, LeaseState
from raylet_agent.core.leasing import Leasing
from raylet_agent.core.ledger import Ledger
from raylet_agent.core.runtime_env import environment_of
from raylet_agent.core.shape import shape_of
from raylet_agent.core.worker_pool import Worker

_CAUSES = {
    a.WORKER_END_CAUSE_EXITED: t.ACTOR_DEATH_CAUSE_EXITED,
    a.WORKER_END_CAUSE_KILLED: t.ACTOR_DEATH_CAUSE_KILLED,
    a.WORKER_END_CAUSE_PLACEMENT_GROUP_REMOVED: t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED,
    a.WORKER_END_CAUSE_OUT_OF_MEMORY: t.ACTOR_DEATH_CAUSE_OUT_OF_MEMORY,
    a.WORKER_END_CAUSE_PREEMPTED: t.ACTOR_DEATH_CAUSE_PREEMPTED,
}


class DetachedActor(msgspec.Struct):
    """One incarnation here."""

    command: n.StartDetachedActor
    lease_id: bytes
    worker: Worker | None = None
    started: bool = False
    failed: bool = False


class DetachedActors:
    """Incarnations by actor id; at most one each. Their leases have no owner."""

    def __init__(
        self, facts: NodeFacts, ledger: Ledger, leasing: Leasing, out: list[Effect]
    ) -> None:
        self._facts = facts
        self._ledger = ledger
        self._leasing = leasing
        self._out = out
        self._actors: dict[bytes, DetachedActor] = {}
        leasing.on_detached_granted = self._granted
        leasing.on_detached_failed = self._lease_failed

    def held(self) -> list[n.DetachedActorHeld]:
        """What is stated at registration."""
        return [
            n.DetachedActorHeld(
                actor_id=actor_id,
                incarnation=actor.command.incarnation,
                worker_address=actor.worker.address,
                worker_id=actor.worker.worker_id,
                pid=actor.worker.pid,
            )
            for actor_id, actor in self._actors.items()
            if actor.worker is not None and actor.started
        ]

    def start(self, command: n.StartDetachedActor, now_ms: int) -> None:
        """The GCS chose this node; idempotent by incarnation."""
        known = self._actors.get(command.actor_id)
        if known is not None:
            if known.command.incarnation == command.incarnation and known.started:
                self._tell_started(known)
            if known.command.incarnation >= command.incarnation:
                return
            self._end(known, "a later incarnation starts", now_ms, graceful=False)
        request = _request(command)
        lease_id = command.actor_id + command.incarnation.to_bytes(4, "big")
        try:
            lease = Lease(lease_id, b"", request, shape_of(request), self._leasing.next_sequence())
            environment_of(command.runtime_env_json)
        except ValueError as error:
            kind = n.DETACHED_ACTOR_EVENT_KIND_CREATION_FAILED
            self._tell(command, kind, message=str(error), cause=t.ACTOR_DEATH_CAUSE_UNSCHEDULABLE)
            return
        if not self._place(lease, command, now_ms):
            kind = n.DETACHED_ACTOR_EVENT_KIND_REFUSED
            self._tell(command, kind, message="no room on this node")

    def refuse(self, lease: Lease) -> None:
        """Its node drains before it has a worker: the GCS chooses another one."""
        known = self._actors.pop(lease.request.actor_id, None)
        self._leasing.drop(lease)
        if known is not None:
            kind = n.DETACHED_ACTOR_EVENT_KIND_REFUSED
            self._tell(known.command, kind, message="the node is draining")

    def kill(self, command: n.KillDetachedActor, now_ms: int) -> None:
        """Ends an incarnation (any, when none is named)."""
        known = self._actors.get(command.actor_id)
        if known is None or command.incarnation not in (0, known.command.incarnation):
            return
        self._end(known, command.reason or "killed", now_ms, graceful=command.graceful)

    def created(self, worker_id: bytes, outcome: a.ActorCreationOutcome, now_ms: int) -> None:
        """The worker ran the constructor."""
        known = self._actors.get(outcome.actor_id)
        if known is None or known.worker is None or known.worker.worker_id != worker_id:
            return
        if outcome.ok:
            known.started = True
            self._tell_started(known)
            return
        known.failed = True
        kind = n.DETACHED_ACTOR_EVENT_KIND_CREATION_FAILED
        self._tell(
            known.command,
            kind,
            message=outcome.message,
            error=outcome.error,
            cause=t.ACTOR_DEATH_CAUSE_CREATION_FAILED,
        )
        cause = a.WORKER_END_CAUSE_EXITED
        self._leasing.pool.stop(known.worker, cause, "its constructor raised", now_ms)

    def ended(self, lease: Lease, worker: Worker, exit_code: int) -> None:
        """The worker of an incarnation is gone."""
        actor_id = lease.request.actor_id
        known = self._actors.get(actor_id)
        if known is None or known.lease_id != lease.lease_id:
            return
        del self._actors[actor_id]
        if known.failed:
            return
        cause = _CAUSES.get(
            a.WorkerEndCause.ValueType(worker.end_cause), t.ACTOR_DEATH_CAUSE_WORKER_DIED
        )
        self._tell(
            known.command,
            n.DETACHED_ACTOR_EVENT_KIND_ENDED,
            message=worker.end_message or f"exit status {exit_code}",
            cause=cause,
            intended=cause in (t.ACTOR_DEATH_CAUSE_EXITED, t.ACTOR_DEATH_CAUSE_KILLED),
        )

    def _place(self, lease: Lease, command: n.StartDetachedActor, now_ms: int) -> bool:
        pool, bundle = self._ledger.node, None
        if self._facts.draining:
            return False
        if lease.shape.group_id:
            bundle = self._leasing.bundle_for(lease)
            if bundle is None:
                return False
            pool = bundle.pool
        elif pool.lacks(lease.shape.needed()) is not None:
            return False
        self._leasing.adopt(lease)
        self._actors[command.actor_id] = DetachedActor(command, lease.lease_id)
        self._leasing.place(lease, pool, bundle, now_ms)
        return True

    def _granted(self, lease: Lease, worker: Worker) -> None:
        known = self._actors[lease.request.actor_id]
        known.worker = worker
        command = known.command
        name = command.name or command.class_name
        self._out.append(
            LabelOutput(worker.worker_id, command.job_id, name, command.driver_address)
        )
        create = a.CreateDetachedActor(
            actor_id=command.actor_id,
            incarnation=command.incarnation,
            creation_spec=command.creation_spec,
        )
        self._out.append(SendToWorker(worker.worker_id, a.WorkerCommand(create_actor=create)))

    def _lease_failed(self, lease: Lease, reason: a.LeaseFailure.ValueType, message: str) -> None:
        known = self._actors.get(lease.request.actor_id)
        if known is None or known.lease_id != lease.lease_id:
            return
        del self._actors[lease.request.actor_id]
        kind, cause = n.DETACHED_ACTOR_EVENT_KIND_ENDED, t.ACTOR_DEATH_CAUSE_WORKER_DIED
        if reason == a.LEASE_FAILURE_RUNTIME_ENV_FAILED:
            # Another start would fail alike.
            kind = n.DETACHED_ACTOR_EVENT_KIND_CREATION_FAILED
            cause = t.ACTOR_DEATH_CAUSE_CREATION_FAILED
        self._tell(known.command, kind, message=message, cause=cause)

    def _end(self, known: DetachedActor, reason: str, now_ms: int, *, graceful: bool) -> None:
        lease = self._leasing.leases.get(known.lease_id)
        if known.worker is None:
            del self._actors[known.command.actor_id]
            if lease is not None and lease.state == LeaseState.STARTING:
                self._leasing.drop(lease)
            kind = n.DETACHED_ACTOR_EVENT_KIND_ENDED
            cause = t.ACTOR_DEATH_CAUSE_KILLED
            self._tell(known.command, kind, message=reason, cause=cause, intended=True)
            return
        cause = a.WORKER_END_CAUSE_EXITED if graceful else a.WORKER_END_CAUSE_KILLED
        self._leasing.pool.stop(known.worker, cause, reason, now_ms, graceful=graceful)

    def _tell_started(self, known: DetachedActor) -> None:
        assert known.worker is not None
        self._tell(
            known.command,
            n.DETACHED_ACTOR_EVENT_KIND_STARTED,
            worker=known.worker,
        )

    def _tell(
        self,
        command: n.StartDetachedActor,
        kind: n.DetachedActorEventKind.ValueType,
        *,
        worker: Worker | None = None,
        message: str = "",
        error: bytes = b"",
        cause: t.ActorDeathCause.ValueType = t.ACTOR_DEATH_CAUSE_UNSPECIFIED,
        intended: bool = False,
    ) -> None:
        event = n.DetachedActorEvent(
            actor_id=command.actor_id,
            incarnation=command.incarnation,
            kind=kind,
            message=message,
            error=error,
            cause=cause,
            intended=intended,
        )
        if worker is not None:
            event.worker_address = worker.address
            event.worker_id = worker.worker_id
            event.pid = worker.pid
        self._out.append(SendToGcs(n.AgentItem(detached_actor=event)))


def _request(command: n.StartDetachedActor) -> a.LeaseRequest:
    return a.LeaseRequest(
        resources=command.resources,
        placement_resources=command.placement_resources,
        placement_group_id=command.placement_group_id,
        bundle_index=command.bundle_index,
        runtime_env_json=command.runtime_env_json,
        actor_id=command.actor_id,
        name=command.name or command.class_name,
        job_id=command.job_id,
        namespace=command.namespace,
        incarnation=command.incarnation,
    )
