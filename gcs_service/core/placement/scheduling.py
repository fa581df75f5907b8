"""The loop that gives waiting groups their places, and the words for why it could not."""

from __future__ import annotations

from collections.abc import Iterable

from cluster_common.resources import fits
from gcs_service.core.placement.availability_index import AvailabilityIndex
from gcs_service.core.placement.choose import choose
from gcs_service.core.placement.fairness import Fairness
from gcs_service.core.placement.group import Group
from gcs_service.core.placement.limits import GIVE_BACK_WAIT_MS, REASON_NOTES_MAX
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import NO_ROOM, Plan, Shortfall
from gcs_service.core.placement.request import Shape
from gcs_service.core.placement.room_class import RoomClass
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.timers import TimerKind
from gcs_service.core.placement.two_phase import TwoPhaseCommit
from gcs_service.core.placement.waiting import WaitClass

INFEASIBLE = "infeasible"
DRAINING = "draining"
QUEUED_BEHIND = "queued_behind"
FRAGMENTED = "device_fragmentation"
RESCHEDULING = "rescheduling"
_SENTENCES = {
    RESCHEDULING: "on_loss=wait: it waits for a node that joins after the loss",
    INFEASIBLE: "no set of present nodes could hold it, even empty",
    DRAINING: "it would need nodes that are draining",
    FRAGMENTED: "enough is free in sum, but not on single devices",
    QUEUED_BEHIND: "what is free is kept for an older group",
}


class Scheduling:
    """Queues groups, tries the woken ones oldest first."""

    def __init__(self, state: PlacementState, two_phase: TwoPhaseCommit) -> None:
        self._state = state
        self._two_phase = two_phase
        self.fairness = Fairness(state)

    def queue(self, group: Group) -> None:
        """The group looks for a place, from now on."""
        group.retry_at_ms = 0
        group.parked = False
        self._state.waiting.join(group, try_now=True)
        self._copy_reason(group)

    def queue_later(self, group: Group) -> None:
        """The same after a refusal.

        When its delay is over, or an event that matters comes first.
        """
        state = self._state
        delay_ms = group.back_off()
        group.retry_at_ms = state.now_ms + delay_ms
        state.waiting.join(group, try_now=False)
        state.timers.arm(group.retry_at_ms, TimerKind.RETRY, group.group_id)

    def queue_after_giving_back(self, group: Group) -> None:
        """The group was told to give everything back.

        What it had may be all there is for it, so it waits a moment for that.
        """
        state = self._state
        if not group.holdings:
            self.queue(group)
            return
        group.parked = True
        state.waiting.changed[group.group_id] = group
        group.retry_at_ms = state.now_ms + GIVE_BACK_WAIT_MS
        state.timers.arm(group.retry_at_ms, TimerKind.RETRY, group.group_id)

    def gave_back(self, group: Group | None) -> None:
        """A holding of the group is gone; with the last one a parked group looks for places."""
        if group is not None and group.parked and not group.holdings:
            self.queue(group)

    def _copy_reason(self, group: Group) -> None:
        wait = group.wait_class
        if wait is not None and wait.failed and wait.head is not group:
            group.reason = wait.head.reason
            group.message = wait.head.message

    def retry(self, group: Group, due_ms: int) -> None:
        """The group's delay is over."""
        if group.retry_at_ms != due_ms:
            return
        if group.parked:
            self.queue(group)
        elif group.wait_class is not None:
            self._state.waiting.wake(group.wait_class)

    def withdraw(self, group: Group) -> None:
        """The group wants no place any more."""
        group.parked = False
        self._state.waiting.changed[group.group_id] = group
        self._state.waiting.leave(group)
        if self._state.claimant is group:
            self.fairness.release()

    def run(self) -> None:
        """Tries every woken class until none is left that could fare better."""
        waiting = self._state.waiting
        while (wait := waiting.next_woken()) is not None:
            self._try(wait)

    def _try(self, wait: WaitClass) -> None:
        state = self._state
        group = wait.head
        claiming = state.claimant is group
        kept = list(state.claimed) if claiming else []
        if claiming:
            self.fairness.lift()
        result = choose(state.index, state.table, wait.wanted)
        if isinstance(result, Shortfall):
            if claiming:
                self.fairness.claim(group)
            self._failed(wait, result)
            return
        state.waiting.leave(group)
        self._two_phase.begin(group, wait.wanted.positions, result)
        for node in kept:
            if node.usable:
                state.waiting.grew(node, state.classes.empty, node.room_class)
        self.fairness.placed(group, result)
        if wait.groups:
            state.waiting.wake(wait)

    def _failed(self, wait: WaitClass, shortfall: Shortfall) -> None:
        wait.failed = True
        wait.shortfall = shortfall
        group = wait.head
        before = group.reason
        group.reason, group.message = self.judge(wait, shortfall)
        if group.reason != before:
            for other in wait.groups[:REASON_NOTES_MAX]:
                self._state.waiting.changed[other.group_id] = other
            if group.version:
                self._state.tell(group)

    def judge(self, wait: WaitClass, shortfall: Shortfall) -> tuple[str, str]:
        """(token, sentence) for a class that does not fit now."""
        state = self._state
        if wait.judged_version != state.totals.version:
            totals = choose(state.totals, state.table, wait.wanted)
            wait.feasible = isinstance(totals, Plan)
            wait.at_best = ""
            if isinstance(totals, Shortfall) and totals.value and totals.fitting < totals.wanted:
                wait.at_best = f"; {totals.sentence()}"
            wait.judged_version = state.totals.version
        if not wait.feasible and wait.wanted.newer_than >= 0:
            return RESCHEDULING, _SENTENCES[RESCHEDULING]
        if not wait.feasible:
            helped = state.draining and self._would_fit_with(
                state.totals, ((node, node.total_class) for node in state.draining), wait
            )
            token = DRAINING if helped else INFEASIBLE
            return token, _SENTENCES[token] + wait.at_best
        if state.claimed and self._would_fit_with(
            state.index, ((node, node.room_class) for node in state.claimed), wait
        ):
            return QUEUED_BEHIND, _SENTENCES[QUEUED_BEHIND]
        if shortfall.reason == NO_ROOM and any(self._fragmented(shape) for shape in wait.shapes):
            return FRAGMENTED, _SENTENCES[FRAGMENTED]
        return shortfall.reason, shortfall.sentence()

    def _fragmented(self, shape: Shape) -> bool:
        """Whether nodes have the amount free, but never on one device."""
        if not shape.amounts.devices:
            return False
        pool = self._state.index.pool(shape.selector)
        if pool.shape(shape.amounts).buckets:
            return False
        return any(room.devices and fits(shape.amounts.vector, room.room) for room in pool.members)

    def _would_fit_with(
        self,
        index: AvailabilityIndex,
        more: Iterable[tuple[NodeRoom, RoomClass]],
        wait: WaitClass,
    ) -> bool:
        """Asks again with a few more nodes in the index, then takes them out."""
        version = index.version
        added: list[NodeRoom] = []
        for node, room in more:
            if node.connected and node not in index:
                index.put(node, room)
                added.append(node)
        enough = bool(added) and isinstance(choose(index, self._state.table, wait.wanted), Plan)
        for node in added:
            index.drop(node)
        index.version = version
        return enough
