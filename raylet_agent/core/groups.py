"""The GCS's commands about bundles, and what they do to the leases inside.

Room is given back when the last worker of a bundle has ended; the answer to a cancel or return goes
out then, so that "answered" means "free".
"""

from __future__ import annotations

import msgspec

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from raylet_agent import limits
from raylet_agent.core.bundles import STALE, Bundle, Refusal
from raylet_agent.core.effects import Effect, ReportSnapshot, SendToGcs
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.lease import Lease, LeaseState
from raylet_agent.core.leasing import Leasing
from raylet_agent.core.ledger import Ledger
from raylet_agent.core.tombstones import Tombstones

REMOVED_MESSAGE = "its placement group gave the bundle back"
_MOVES = ("the whole group is placed again", "rescheduling")
"""How reasons of a return begin after which the group lives on: owners ask where it went."""


class _Return(msgspec.Struct):
    """A cancel or return that waits for workers to end."""

    answer: n.BundleAnswer
    left: dict[bytes, None]


class GroupCommands:
    """Carries out bundle commands in the order of the node session."""

    def __init__(
        self, facts: NodeFacts, ledger: Ledger, leasing: Leasing, out: list[Effect]
    ) -> None:
        self._facts = facts
        self._ledger = ledger
        self._leasing = leasing
        self._out = out
        self._removed = Tombstones(limits.GROUP_TOMBSTONE_MS, limits.GROUP_TOMBSTONES_MAX)
        self._returns: list[_Return] = []
        leasing.on_bundle_emptied = self._emptied

    @property
    def removed_count(self) -> int:
        """Tombstones of groups."""
        return len(self._removed)

    def was_removed(self, group_id: bytes, now_ms: int) -> bool:
        """Whether the group's removal passed by here."""
        return self._removed.get(group_id, now_ms) is not None

    def command(self, command: n.BundleCommand, now_ms: int) -> list[bytes]:
        """Carries out one command.

        Returns:
            Groups whose bundles were opened: their waiting leases may fit now.
        """
        action = command.action
        if action in (n.BUNDLE_ACTION_CANCEL, n.BUNDLE_ACTION_RETURN):
            self._give_back(command, now_ms)
            return []
        refusal: Refusal | None = None
        if action in (n.BUNDLE_ACTION_PREPARE, n.BUNDLE_ACTION_PREPARE_AND_COMMIT):
            refusal = self._prepare(command, now_ms)
        if refusal is None and action != n.BUNDLE_ACTION_PREPARE:
            indexes = [bundle.index for bundle in command.bundles]
            bundles = self._ledger.bundles
            refusal = bundles.commit(command.placement_group_id, command.attempt, indexes)
        self._out.append(SendToGcs(n.AgentItem(bundle_answer=_answer(command, refusal))))
        if action != n.BUNDLE_ACTION_COMMIT:
            self._out.append(ReportSnapshot())
        opened = refusal is None and action != n.BUNDLE_ACTION_PREPARE
        return [command.placement_group_id] if opened else []

    def _prepare(self, command: n.BundleCommand, now_ms: int) -> Refusal | None:
        if self._facts.draining:
            return Refusal("draining", "the node is draining")
        group_id, attempt = command.placement_group_id, command.attempt
        wanted = {
            bundle.index: {k: v for k, v in bundle.resources.amounts.items() if v > 0}
            for bundle in command.bundles
        }
        if not wanted:
            return Refusal(STALE, "a prepare must name bundles")
        for bundle in self._ledger.bundles.older_than(group_id, attempt, sorted(wanted)):
            self._evict(bundle, "replaced by a later attempt", now_ms)
        refusal = self._ledger.bundles.prepare(group_id, attempt, wanted, now_ms)
        if refusal is None:
            self._removed.drop(group_id)
        return refusal

    def _give_back(self, command: n.BundleCommand, now_ms: int) -> None:
        group_id, attempt = command.placement_group_id, command.attempt
        bundles = self._ledger.bundles
        named = {bundle.index for bundle in command.bundles}
        if command.action == n.BUNDLE_ACTION_CANCEL:
            chosen = bundles.cancelled(group_id, attempt, now_ms)
        else:
            # Other attempts' bundles stay: a repeated return must not end what was placed since.
            chosen = [b for b in bundles.of_group(group_id) if attempt in (0, b.attempt)]
            if not command.reason.startswith(_MOVES):
                self._removed.add(group_id, now_ms)
        chosen = [bundle for bundle in chosen if not named or bundle.index in named]
        pending = _Return(_answer(command, None), {b.grant_key: None for b in chosen})
        self._returns.append(pending)
        for bundle in chosen:
            self._evict(bundle, command.reason or REMOVED_MESSAGE, now_ms)
        self._fail_waiting(group_id, now_ms)
        self._out.append(ReportSnapshot())
        self._finish_returns()

    def _evict(self, bundle: Bundle, message: str, now_ms: int) -> None:
        """Ends everything in a bundle; its room is free when the last process is gone."""
        bundle.returning = True
        cause = a.WORKER_END_CAUSE_PLACEMENT_GROUP_REMOVED
        inside = [x for x in self._leasing.leases.values() if x.bundle is bundle]
        if not inside:
            self._emptied(bundle)
            return
        for lease in inside:
            self._end_inside(lease, cause, message, now_ms)

    def _end_inside(self, lease: Lease, cause: int, message: str, now_ms: int) -> None:
        if lease.state == LeaseState.STARTING:
            self._leasing.fail(lease, a.LEASE_FAILURE_PLACEMENT_GROUP_REMOVED, message)
            return
        worker = self._leasing.pool.get(lease.worker_id)
        assert worker is not None, f"lease {lease.lease_id.hex()} has lost its worker"
        self._leasing.pool.stop(worker, cause, message, now_ms)

    def _fail_waiting(self, group_id: bytes, now_ms: int) -> None:
        """Requests that wait for bundles that are no longer here."""
        left = [b.index for b in self._ledger.bundles.of_group(group_id) if not b.returning]
        removed = self.was_removed(group_id, now_ms)
        for lease in self._leasing.queue.of_group(group_id):
            index = lease.shape.bundle_index
            if index in left or (index == -1 and left):
                continue
            if removed:
                reason = a.LEASE_FAILURE_PLACEMENT_GROUP_REMOVED
                message = f"placement group {group_id.hex()} was removed"
            else:
                reason = a.LEASE_FAILURE_BUNDLE_NOT_HERE
                message = f"bundle {index} of {group_id.hex()} left this node"
            self._leasing.fail(lease, reason, message)

    def _emptied(self, bundle: Bundle) -> None:
        """Nothing runs in a returning bundle any more."""
        freed = self._ledger.bundles.release(bundle)
        self._leasing.freed(self._ledger.node, freed)
        self._out.append(ReportSnapshot())
        for pending in self._returns:
            pending.left.pop(bundle.grant_key, None)
        self._finish_returns()

    def _finish_returns(self) -> None:
        done = [pending for pending in self._returns if not pending.left]
        if done:
            self._returns = [pending for pending in self._returns if pending.left]
            for pending in done:
                self._out.append(SendToGcs(n.AgentItem(bundle_answer=pending.answer)))


def _answer(command: n.BundleCommand, refusal: Refusal | None) -> n.BundleAnswer:
    return n.BundleAnswer(
        action=command.action,
        placement_group_id=command.placement_group_id,
        attempt=command.attempt,
        ok=refusal is None,
        reason="" if refusal is None else refusal.reason,
        message="" if refusal is None else refusal.message,
        indexes=[bundle.index for bundle in command.bundles],
    )
