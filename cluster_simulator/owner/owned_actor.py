"""One actor of a gang: the real lifecycle, and a host that carries out what it decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import types_pb2 as t
from cluster_common import actor_lifecycle as life
from cluster_simulator import costs
from driver_client.core import lease_rules as rules
from driver_client.core.bundle_choice import GONE

if TYPE_CHECKING:
    from cluster_simulator.owner.gang import Gang

_PUSH_AGAIN_US = 200_000


class OwnedActor:
    """`bundle_index`: which bundle of its gang it lives in."""

    __slots__ = ("_gang", "bundle_index", "lease_id", "life", "waits_for_group", "was_up")

    def __init__(self, gang: Gang, actor_id: bytes, bundle_index: int, max_restarts: int) -> None:
        self._gang = gang
        self.bundle_index = bundle_index
        self.life = life.ActorLifecycle(actor_id, max_restarts)
        self.lease_id = b""
        self.waits_for_group = False
        self.was_up = False

    @property
    def is_alive(self) -> bool:
        """Whether it answers calls."""
        return self.life.state == t.ACTOR_STATE_ALIVE

    def start(self) -> None:
        """There are no arguments to wait for."""
        self._carry_out(self.life.dependencies_ready())

    def end(self, cause: t.ActorDeathCause.ValueType, message: str) -> None:
        """Ends it for good."""
        self._carry_out(self.life.end(cause, message, self._wall_ms()))

    def _wall_ms(self) -> int:
        return costs.WALL_START_MS + self._gang.owner.heap.now_ms

    def _carry_out(self, effects: list[life.Effect]) -> None:
        owner = self._gang.owner
        for effect in effects:
            if not owner.may_act():
                return
            if isinstance(effect, life.RequestLease):
                self._request_lease()
            elif isinstance(effect, life.PushCreation):
                self._push(effect)
            elif isinstance(effect, life.StopWorker):
                owner.leases.give_back(
                    effect.placement.lease_id, kill_worker=True, reason=effect.reason
                )
            elif isinstance(effect, life.CancelLease):
                owner.leases.cancel(self.lease_id)
            else:
                if owner.world.story.is_on:
                    state = t.ActorState.Name(self.life.state).removeprefix("ACTOR_STATE_")
                    owner.world.story.note(f"actor {state}", self.life.actor_id)
                self._gang.actor_changed(self)

    def _request_lease(self) -> None:
        self.lease_id = self._gang.owner.next_id()
        self.route()

    def route(self) -> None:
        """Asks the agent that holds the bundle, as soon as the group has a place."""
        if self.life.is_dead or self.life.placement is not None:
            return
        gang = self._gang
        record = gang.record
        if gang.state in GONE:
            message = "its placement group was removed"
            self.end(t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED, message)
            return
        request = self._request()
        address = gang.choice.address(request, record)
        self.waits_for_group = not address
        if address:
            gang.owner.leases.request(request, self, address)

    def _request(self) -> a.LeaseRequest:
        gang = self._gang
        return a.LeaseRequest(
            lease_id=self.lease_id,
            job_id=gang.owner.job_id,
            resources=gang.actor_resources,
            placement_resources=gang.actor_resources,
            strategy=a.SCHEDULING_STRATEGY_PLACEMENT_GROUP,
            placement_group_id=gang.group_id,
            bundle_index=self.bundle_index,
            actor_id=self.life.actor_id,
            incarnation=self.life.incarnation,
        )

    # ---- the worker

    def _push(self, effect: life.PushCreation) -> None:
        owner = self._gang.owner
        owner.heap.after(owner.network.delay_us(), self._at_worker, effect)

    def _at_worker(self, effect: life.PushCreation) -> None:
        """Beside the worker: runs the constructor there, if it still is."""
        owner = self._gang.owner
        if not owner.alive or self.life.placement is not effect.placement:
            return
        worker = owner.world.workers.get(effect.placement.worker_address)
        if worker is None:
            return
        if worker.lease_id != effect.placement.lease_id or owner.network.is_cut(owner):
            owner.later(_PUSH_AGAIN_US, self._at_worker, effect)
            return
        worker.actor = (effect.actor_id, effect.incarnation)
        answer_us = costs.CONSTRUCTOR_US + owner.network.delay_us()
        owner.later(answer_us, self._created, effect.incarnation)

    def _created(self, incarnation: int) -> None:
        self._carry_out(self.life.creation_succeeded(incarnation))

    # ---- LeaseHolder

    def lease_granted(self, grant: a.LeaseGrant) -> None:
        """A worker for the present incarnation."""
        placement = life.Placement(
            node_id=grant.node_id,
            worker_id=grant.worker_id,
            worker_address=grant.worker_address,
            pid=grant.pid,
            lease_id=grant.lease_id,
        )
        self._carry_out(self.life.lease_granted(self.life.incarnation, placement))

    def lease_failed(self, failed: a.LeaseFailed) -> None:
        """No worker: final, or ask again."""
        if failed.lease_id != self.lease_id or self.life.is_dead:
            return
        final = rules.final_cause(failed.reason)
        if rules.is_asked_again(failed.reason):
            again_us = rules.ASK_AGAIN_MS * 1_000
            self._gang.owner.later(again_us, self._ask_again, failed.lease_id)
        elif final is not None:
            self.end(final, failed.message)
        else:
            cause = t.ACTOR_DEATH_CAUSE_WORKER_DIED
            now = self._wall_ms()
            self._carry_out(
                self.life.worker_ended(self.life.incarnation, cause, failed.message, now)
            )

    def _ask_again(self, lease_id: bytes) -> None:
        if lease_id == self.lease_id and not self.life.is_dead and self.life.placement is None:
            self._request_lease()

    def lease_pending(self, pending: a.LeasePending) -> None:
        """It waits."""

    def lease_moved(self) -> None:
        """It waits elsewhere."""

    def lease_idle(self, lease_id: bytes) -> bool:
        """An actor's lease is never idle."""
        del lease_id
        return False

    def lease_draining(self, lease_id: bytes) -> None:
        """It has until the deadline, then it starts elsewhere."""

    def worker_ended(self, ended: a.LeasedWorkerEnded) -> None:
        """The worker is gone."""
        if ended.lease_id != self.lease_id:
            return
        cause = rules.death_cause(ended.cause, group_is_gone=self._gang.state in GONE)
        now = self._wall_ms()
        self._carry_out(self.life.worker_ended(self.life.incarnation, cause, ended.message, now))
