"""One owned actor: carries out what its lifecycle decides. The owner is its only brain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from cluster_api.v1 import agent_pb2 as agent_pb
from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import types_pb2 as t
from cluster_common import actor_lifecycle as life
from driver_client import exceptions
from driver_client.core import lease_rules as rules
from driver_client.core.actor_spec import ActorSpec
from driver_client.core.bundle_choice import GONE
from driver_client.core.call import CallRecord
from driver_client.object_ref import entry_of
from driver_client.objects import entry as entries
from driver_client.objects.entry import Entry
from driver_client.shell.actor_client import ActorClient
from driver_client.shell.actor_messages import actor_record, creation_message
from driver_client.shell.lease_client import LeaseClient
from driver_client.shell.owner_services import OwnerServices
from driver_client.shell.peer_connection import PeerConnection
from driver_client.shell.worker_loss import WorkerLoss


class HostTools(Protocol):
    """What the host lends to each of its actors."""

    services: OwnerServices
    leases: LeaseClient
    job_id: bytes

    def route(
        self, request: agent_pb.LeaseRequest, holder: OwnedActor, wanted: Callable[[], bool]
    ) -> None:
        """Sends a lease request to the bundle's agent."""
        ...

    def group_state(self, group_id: bytes) -> int:
        """The newest known state of a group."""
        ...

    def publish(self, actor: OwnedActor) -> None:
        """The actor's record changed."""
        ...


class OwnedActor:
    """Lifecycle, lease and stream of one actor. I/O thread only."""

    def __init__(
        self, spec: ActorSpec, entry: Entry, client: ActorClient, tools: HostTools
    ) -> None:
        self.spec = spec
        self.entry = entry
        self.client = client
        self.life = life.ActorLifecycle(spec.actor_id, spec.max_restarts)
        self.start_ms = tools.services.wall_ms()
        self.last_node_id = b""
        self._tools = tools
        self._lease_id = b""
        self._loss: WorkerLoss | None = None
        self._connection: PeerConnection | None = None
        client.hooks = self

    # ---- events from the host

    def arguments_ready(self) -> None:
        """All constructor arguments are complete."""
        for _, ref in self.spec.extra.arguments if self.spec.extra else ():
            argument = entry_of(ref)
            if argument.state == entries.ERROR:
                self.end(
                    t.ACTOR_DEATH_CAUSE_CREATION_FAILED,
                    "an argument of the constructor failed",
                    error=argument.data,
                )
                return
        self._carry_out(self.life.dependencies_ready())

    def end(
        self,
        cause: t.ActorDeathCause.ValueType,
        message: str,
        *,
        error: bytes = b"",
        graceful: bool = False,
    ) -> None:
        """Ends the actor for good."""
        now = self._tools.services.wall_ms()
        self._carry_out(self.life.end(cause, message, now, error=error, graceful=graceful))

    def restart(self, message: str) -> None:
        """`kill(no_restart=False)`."""
        self._carry_out(self.life.restart_requested(message, self._tools.services.wall_ms()))

    def record(self) -> t.ActorRecord:
        """The public record now."""
        return actor_record(self, self._tools.services, self._tools.job_id)

    # ---- effects

    def _carry_out(self, effects: list[life.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, life.RequestLease):
                self._request_lease()
            elif isinstance(effect, life.PushCreation):
                self._push_creation(effect)
            elif isinstance(effect, life.StopWorker):
                self._stop_worker(effect)
            elif isinstance(effect, life.CancelLease):
                self._tools.leases.cancel([self._lease_id])
            else:
                self._publish()

    def _request_lease(self) -> None:
        lease_id = self._lease_id = self._tools.services.next_id()
        request = self.spec.key.lease_request(lease_id)
        request.actor_id = self.spec.actor_id
        request.incarnation = self.life.incarnation
        if request.placement_group_id:
            self._tools.route(request, self, lambda: self._wants(lease_id))
        else:
            self._tools.leases.request(request, self)

    def _wants(self, lease_id: bytes) -> bool:
        return self._lease_id == lease_id and not self.life.is_dead

    def _push_creation(self, effect: life.PushCreation) -> None:
        placement = effect.placement
        self.last_node_id = placement.node_id
        connection = self._tools.services.connect(
            placement.worker_address, placement.worker_id, self.client, placement.lease_id
        )
        self._connection = connection
        incarnation = effect.incarnation
        self._loss = WorkerLoss(
            placement.lease_id,
            connection,
            self._tools.leases,
            lambda unfinished, ended: self._worker_over(incarnation, unfinished, ended),
        )
        creation = creation_message(self.spec, incarnation, self._tools.services)
        connection.control().create_actor.CopyFrom(creation)
        if not self.spec.max_restarts:
            # First calls travel with the creation: one round trip until the first answer. Where a
            # restart may follow they wait: a call that was sent may have run, and is not repeated.
            self.client.attach(connection, incarnation)

    def _stop_worker(self, effect: life.StopWorker) -> None:
        if self._loss is not None and effect.placement.lease_id == self._lease_id:
            self._loss.forget()
            self._loss = None
        self._tools.leases.give_back(
            effect.placement.lease_id,
            kill_worker=True,
            reason=effect.reason,
            graceful=effect.graceful,
        )
        self.client.detach()
        if self._connection is not None:
            self._connection.close()  # it has no calls if it is not the client's

    def _publish(self) -> None:
        state = self.life.state
        if state == t.ACTOR_STATE_RESTARTING:
            self.client.restarting()
        elif state == t.ACTOR_STATE_DEAD:
            assert self.life.death is not None, "a dead actor has a death record"
            self.life.death.owner_id = self._tools.services.owner_id
            self.client.died(self.life.death)
            self.entry.complete(self.client.death or b"", entries.ERROR)
        elif state == t.ACTOR_STATE_ALIVE and self.entry.state == entries.PENDING:
            self.entry.complete(_NONE, entries.VALUE)
        self._tools.publish(self)

    # ---- LeaseHolder

    def lease_granted(self, grant: agent_pb.LeaseGrant) -> None:
        """A worker for the present incarnation."""
        placement = life.Placement(
            node_id=grant.node_id,
            worker_id=grant.worker_id,
            worker_address=grant.worker_address,
            pid=grant.pid,
            lease_id=grant.lease_id,
        )
        self._carry_out(self.life.lease_granted(self.life.incarnation, placement))

    def lease_failed(self, failed: agent_pb.LeaseFailed) -> None:
        """No worker: final, or ask again."""
        if not self._wants(failed.lease_id):
            return
        reason = failed.reason
        final = rules.final_cause(reason)
        if rules.is_asked_again(reason):
            loop = asyncio.get_running_loop()
            loop.call_later(rules.ASK_AGAIN_MS / 1_000, self._ask_again, failed.lease_id)
        elif final is not None:
            error = b""
            if reason == agent_pb.LEASE_FAILURE_RUNTIME_ENV_FAILED:
                error = exceptions.pickle_error(exceptions.RuntimeEnvSetupError(failed.message))
            self.end(final, failed.message, error=error)
        else:
            now = self._tools.services.wall_ms()
            cause = t.ACTOR_DEATH_CAUSE_WORKER_DIED
            self._carry_out(
                self.life.worker_ended(self.life.incarnation, cause, failed.message, now)
            )

    def _ask_again(self, lease_id: bytes) -> None:
        if self._wants(lease_id) and self.life.placement is None:
            self._request_lease()

    def lease_pending(self, pending: agent_pb.LeasePending) -> None:
        """Waits; the demand is visible in status."""

    def lease_idle(self, lease_id: bytes) -> bool:
        """An actor's lease is never idle."""
        return False

    def lease_moved(self) -> None:
        """Its request waits with another agent; there is but one."""

    def lease_draining(self, lease_id: bytes) -> None:
        """Its node goes: the actor has until the deadline, then it starts elsewhere."""

    def worker_ended(self, ended: agent_pb.LeasedWorkerEnded) -> None:
        """The agent says that the worker is gone."""
        if self._loss is not None and ended.lease_id == self._lease_id:
            self._loss.ended(ended)

    # ---- ActorHostHooks

    def creation_answered(self, created: pb.ActorCreated) -> None:
        """The constructor returned or raised."""
        if created.ok:
            self._carry_out(self.life.creation_succeeded(created.incarnation))
            self._attach_client(created.incarnation)
            return
        now = self._tools.services.wall_ms()
        text = "the constructor raised"
        self._carry_out(self.life.creation_failed(created.incarnation, text, created.error, now))

    def _attach_client(self, incarnation: int) -> None:
        connection = self._connection
        alive = self.life.state == t.ACTOR_STATE_ALIVE and incarnation == self.life.incarnation
        if alive and connection is not None and self.client.connection is not connection:
            self.client.attach(connection, incarnation)

    def stream_lost(self, connection: PeerConnection, unfinished: list[CallRecord]) -> None:
        """The worker's stream broke; the cause follows from the agent."""
        if self._loss is not None and connection is self._connection:
            self._loss.stream_lost(unfinished)
        else:
            self.client.lost(unfinished)

    def _worker_over(
        self, incarnation: int, unfinished: list[CallRecord], ended: agent_pb.LeasedWorkerEnded
    ) -> None:
        self._loss = None
        self.client.connection = None
        self.client.lost(unfinished)
        cause = rules.death_cause(ended.cause, group_is_gone=self._group_is_gone())
        message = ended.message or f"exit status {ended.exit_code}"
        now = self._tools.services.wall_ms()
        self._carry_out(self.life.worker_ended(incarnation, cause, message, now))

    def _group_is_gone(self) -> bool:
        group_id = self.spec.key.request.placement_group_id
        return bool(group_id) and self._tools.group_state(group_id) in GONE


_NONE = b"\x80\x05N."
"""Pickled None: what an actor's creation evaluates to (`__ray_ready__`)."""
