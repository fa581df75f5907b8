"""The one state machine of an actor, hosted by its owner and, for detached actors, by the GCS.

    DEPENDENCIES_UNREADY -> PENDING_CREATION -> ALIVE <-> RESTARTING, any -> DEAD(cause)

A host feeds events and carries out the effects, in order. What the machine does not know: where
to lease (the host chooses), what the class is, who holds handles. Incarnations count starts; an
event of an earlier incarnation is void.
"""

from __future__ import annotations

import msgspec

from cluster_api.v1 import types_pb2 as t

RESTARTS_UNLIMITED = -1

NO_RESTART_CAUSES = frozenset(
    {
        t.ACTOR_DEATH_CAUSE_OWNER_DIED,
        t.ACTOR_DEATH_CAUSE_KILLED,
        t.ACTOR_DEATH_CAUSE_OUT_OF_SCOPE,
        t.ACTOR_DEATH_CAUSE_EXITED,
        t.ACTOR_DEATH_CAUSE_CREATION_FAILED,
        t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED,
        t.ACTOR_DEATH_CAUSE_UNSCHEDULABLE,
    }
)
"""Ends that nobody may undo: wanted by the user, or certain to repeat (RAY_FACTS A5.3)."""


class Placement(msgspec.Struct, frozen=True, gc=False):
    """Where one incarnation runs."""

    node_id: bytes
    worker_id: bytes
    worker_address: str
    pid: int
    lease_id: bytes = b""


# ---- effects


class RequestLease(msgspec.Struct, frozen=True, gc=False):
    """Find a worker for this incarnation."""

    actor_id: bytes
    incarnation: int


class CancelLease(msgspec.Struct, frozen=True, gc=False):
    """The lease asked for by this incarnation is not wanted any more."""

    actor_id: bytes
    incarnation: int


class PushCreation(msgspec.Struct, frozen=True, gc=False):
    """Run the constructor on this worker."""

    actor_id: bytes
    incarnation: int
    placement: Placement


class StopWorker(msgspec.Struct, frozen=True, gc=False):
    """Give the worker back; it must not be reused. Graceful: it may finish what runs."""

    actor_id: bytes
    incarnation: int
    placement: Placement
    graceful: bool
    reason: str


class Publish(msgspec.Struct, frozen=True, gc=False):
    """The public record changed: tell the watchers, the name's holder and the lists."""

    actor_id: bytes


Effect = RequestLease | CancelLease | PushCreation | StopWorker | Publish


class ActorLifecycle:
    """State of one actor. Every method returns ordered effects; none does I/O."""

    __slots__ = (
        "actor_id",
        "death",
        "incarnation",
        "max_restarts",
        "placement",
        "preempted_restarts",
        "restarts",
        "state",
        "version",
    )

    def __init__(self, actor_id: bytes, max_restarts: int) -> None:
        self.actor_id = actor_id
        self.max_restarts = max_restarts
        self.state: t.ActorState.ValueType = t.ACTOR_STATE_DEPENDENCIES_UNREADY
        self.incarnation = 0
        self.restarts = 0
        self.preempted_restarts = 0
        self.placement: Placement | None = None
        self.death: t.ActorDeath | None = None
        self.version = 1

    @property
    def is_dead(self) -> bool:
        """Whether it ended for good."""
        return self.state == t.ACTOR_STATE_DEAD

    def dependencies_ready(self) -> list[Effect]:
        """The constructor's arguments exist: ask for a worker."""
        if self.state != t.ACTOR_STATE_DEPENDENCIES_UNREADY:
            return []
        self._move(t.ACTOR_STATE_PENDING_CREATION)
        self.incarnation = 1
        return [RequestLease(self.actor_id, 1), Publish(self.actor_id)]

    def lease_granted(self, incarnation: int, placement: Placement) -> list[Effect]:
        """A worker is ours; a grant nobody waits for goes back at once."""
        waiting = self.state in (t.ACTOR_STATE_PENDING_CREATION, t.ACTOR_STATE_RESTARTING)
        if incarnation != self.incarnation or not waiting or self.placement is not None:
            if self.placement == placement:
                return []
            stop = StopWorker(
                self.actor_id,
                incarnation,
                placement,
                graceful=False,
                reason="grant not wanted any more",
            )
            return [stop]
        self.placement = placement
        self.version += 1
        return [PushCreation(self.actor_id, incarnation, placement)]

    def creation_succeeded(self, incarnation: int) -> list[Effect]:
        """The constructor returned."""
        if incarnation != self.incarnation or self.placement is None or self.is_dead:
            return []
        if self.state == t.ACTOR_STATE_ALIVE:
            return []
        self._move(t.ACTOR_STATE_ALIVE)
        return [Publish(self.actor_id)]

    def creation_failed(
        self, incarnation: int, message: str, error: bytes, now_ms: int
    ) -> list[Effect]:
        """The constructor raised: final, the next try would raise too."""
        if incarnation != self.incarnation:
            return []
        return self.end(t.ACTOR_DEATH_CAUSE_CREATION_FAILED, message, now_ms, error=error)

    def worker_ended(
        self, incarnation: int, cause: t.ActorDeathCause.ValueType, message: str, now_ms: int
    ) -> list[Effect]:
        """The worker of this incarnation is gone: restart or die.

        Void before the first lease was asked for: no worker can have ended.
        """
        if incarnation < 1 or incarnation != self.incarnation or self.is_dead:
            return []
        preempted = cause == t.ACTOR_DEATH_CAUSE_PREEMPTED
        if cause in NO_RESTART_CAUSES or not self._may_restart(preempted=preempted):
            if self.placement is not None:
                return self.end(cause, message, now_ms, worker_gone=True)
            return self.end(cause, message, now_ms)
        self.restarts += 1
        self.preempted_restarts += preempted
        self.incarnation += 1
        self.placement = None
        self._move(t.ACTOR_STATE_RESTARTING)
        return [RequestLease(self.actor_id, self.incarnation), Publish(self.actor_id)]

    def restart_requested(self, message: str, now_ms: int) -> list[Effect]:
        """`kill(no_restart=False)`: stop the worker; it counts as a restart.

        Without a worker the start that is under way is the next one, if there may be a next one.
        """
        if self.is_dead:
            return []
        if self.placement is None:
            if not self._may_restart(preempted=False):
                return self.end(t.ACTOR_DEATH_CAUSE_KILLED, message, now_ms)
            self.restarts += 1
            self.version += 1
            return [Publish(self.actor_id)]
        stop = StopWorker(
            self.actor_id, self.incarnation, self.placement, graceful=False, reason=message
        )
        return [
            stop,
            *self.worker_ended(self.incarnation, t.ACTOR_DEATH_CAUSE_WORKER_DIED, message, now_ms),
        ]

    def end(
        self,
        cause: t.ActorDeathCause.ValueType,
        message: str,
        now_ms: int,
        *,
        error: bytes = b"",
        worker_gone: bool = False,
        graceful: bool = False,
    ) -> list[Effect]:
        """Ends for good; idempotent. `now_ms` is wall-clock time for the record."""
        if self.is_dead:
            return []
        never_started = self.state in (
            t.ACTOR_STATE_DEPENDENCIES_UNREADY,
            t.ACTOR_STATE_PENDING_CREATION,
        )
        node_id = self.placement.node_id if self.placement else b""
        effects: list[Effect] = []
        if self.placement is not None and not worker_gone:
            effects.append(
                StopWorker(self.actor_id, self.incarnation, self.placement, graceful, message)
            )
        elif self.placement is None and self.incarnation > 0:
            effects.append(CancelLease(self.actor_id, self.incarnation))
        self.death = t.ActorDeath(
            cause=cause,
            message=message,
            node_id=node_id,
            time_ms=now_ms,
            creation_error=error,
            never_started=never_started,
        )
        self._move(t.ACTOR_STATE_DEAD)
        effects.append(Publish(self.actor_id))
        return effects

    def _may_restart(self, *, preempted: bool) -> bool:
        if self.max_restarts == RESTARTS_UNLIMITED:
            return True
        if preempted:
            return self.max_restarts > 0
        return self.restarts - self.preempted_restarts < self.max_restarts

    def _move(self, state: t.ActorState.ValueType) -> None:
        assert self.state != t.ACTOR_STATE_DEAD, f"actor {self.actor_id.hex()} is dead already"
        self.state = state
        self.version += 1
