"""Prepare, commit, undo: the commands of one attempt and what their answers mean.

Rules (DESIGN section 9): all or nothing; any refusal undoes the attempt everywhere, and nothing
waits for that; PREPARED is written before the first commit; commits and undoing are repeated until
answered or the node is dead; an answer nobody waits for is undone.
"""

from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.core.placement.effects import SendBundle
from gcs_service.core.placement.group import (
    CREATED,
    PENDING,
    PREPARED,
    RESCHEDULING,
    Attempt,
    Group,
)
from gcs_service.core.placement.holding import Holding, Phase
from gcs_service.core.placement.limits import (
    COMMAND_REPEAT_MS,
    PREPARE_ANSWER_MS,
    RETRY_DELAY_FACTOR,
    RETRY_DELAY_MAX_MS,
    RETRY_DELAY_MS,
    SUSPECT_MS,
)
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Plan
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.timers import TimerKind

PREPARE = ns.BUNDLE_ACTION_PREPARE
COMMIT = ns.BUNDLE_ACTION_COMMIT
CANCEL = ns.BUNDLE_ACTION_CANCEL
RETURN = ns.BUNDLE_ACTION_RETURN
PREPARE_AND_COMMIT = ns.BUNDLE_ACTION_PREPARE_AND_COMMIT

ATTEMPTS_PER_EPOCH = 1 << 32
"""Attempt numbers of different GCS lives never meet: nodes remember cancelled ones."""
STALE_ATTEMPT = "stale_attempt"


class TwoPhaseCommit:
    """Carries attempts through; who calls decides when a group tries again."""

    def __init__(self, state: PlacementState) -> None:
        self._state = state

    # ---- starting

    def begin(self, group: Group, positions: tuple[int, ...], plan: Plan) -> None:
        """Reserves the plan's room in the ledger and sends the prepares."""
        assert group.attempt is None, f"group {group.group_id.hex()} has an attempt already"
        state = self._state
        base = state.epoch * ATTEMPTS_PER_EPOCH
        number = max(group.last_attempt, base) + 1
        group.last_attempt = number
        group.tries += 1
        attempt = Attempt(number, plan.domain)
        group.attempt = attempt
        by_node: dict[NodeRoom, list[int]] = {}
        for position, node in zip(positions, plan.nodes, strict=True):
            by_node.setdefault(node, []).append(position)
        attempt.one_phase = len(by_node) == 1
        action = PREPARE_AND_COMMIT if attempt.one_phase else PREPARE
        for node, mine in by_node.items():
            holding = self._new_holding(group, number, node, mine)
            attempt.holdings.append(holding)
            self._prepare(holding, action, checked=True)
            state.room_taken(node)
        attempt.waiting = len(attempt.holdings)
        attempt.deadline_ms = state.now_ms + PREPARE_ANSWER_MS
        state.timers.arm(attempt.deadline_ms, TimerKind.ATTEMPT, group.group_id)

    def _new_holding(
        self, group: Group, number: int, node: NodeRoom, positions: list[int]
    ) -> Holding:
        shapes = group.request.shapes
        bundles = tuple((position, shapes[position].amounts) for position in positions)
        amounts = self._state.table.sum([one for _position, one in bundles])
        holding = Holding(node, group.group_id, number, bundles, amounts, Phase.PREPARING)
        self.keep(group, holding)
        return holding

    def keep(self, group: Group | None, holding: Holding) -> None:
        """Enters the holding in the books of its node and its group."""
        node = holding.node
        assert holding.key not in node.holdings, f"{holding.key} is on the node already"
        node.holdings[holding.key] = holding
        if group is not None:
            group.holdings[node.node_id, holding.attempt] = holding

    def _prepare(
        self, holding: Holding, action: ns.BundleAction.ValueType, *, checked: bool
    ) -> None:
        node = holding.node
        holding.action = action
        holding.sequence = node.reserve(holding.amounts, checked=checked)
        holding.prepare_sequence = holding.sequence
        self._state.out.append(SendBundle(node.node_id, holding.command()))

    # ---- answers

    def prepared(self, group: Group, attempt: Attempt, holding: Holding) -> None:
        """The node holds these bundles; the last one lets the commits go."""
        if holding.phase is not Phase.PREPARING:
            return
        holding.room_taken = True
        attempt.waiting -= 1
        holding.phase = Phase.COMMITTED if attempt.one_phase else Phase.PREPARED
        if attempt.waiting == 0:
            if attempt.one_phase:
                self._take_places(group, attempt)
                self._finish(group, attempt)
            else:
                self._commit_all(group, attempt)

    def _commit_all(self, group: Group, attempt: Attempt) -> None:
        self._take_places(group, attempt)
        group.state = PREPARED
        attempt.committing = True
        attempt.waiting = len(attempt.holdings)
        self._state.persist(group)
        for holding in attempt.holdings:
            holding.phase = Phase.COMMITTING
            self.send_commit(holding)

    def _take_places(self, group: Group, attempt: Attempt) -> None:
        for holding in attempt.holdings:
            for position in holding.positions:
                group.nodes[position] = holding.node
                group.attempts[position] = attempt.number
        if attempt.domain:
            group.domain = attempt.domain

    def committed(self, group: Group, attempt: Attempt, holding: Holding) -> None:
        """The node committed; the last one makes the group whole."""
        if holding.phase is not Phase.COMMITTING:
            return
        holding.phase = Phase.COMMITTED
        holding.refusals = 0
        attempt.waiting -= 1
        if attempt.waiting == 0:
            self._finish(group, attempt)

    def _finish(self, group: Group, attempt: Attempt) -> None:
        state = self._state
        assert all(one.phase is Phase.COMMITTED for one in attempt.holdings)
        group.attempt = None
        group.delay_ms = 0.0
        group.retry_at_ms = 0
        if group.missing:
            # More was lost while this attempt was under way: the caller queues it again.
            group.state = RESCHEDULING
        else:
            group.state = CREATED
            group.newer_than = -1
            group.overtaken = 0
            group.reason = ""
            group.message = ""
            if not group.ready_wall_ms:
                group.ready_wall_ms = state.wall_ms
                group.latency_ms = float(state.now_ms - group.created_now_ms)
        state.persist(group)

    def prepare_refused(self, group: Group, holding: Holding, answer: ns.BundleAnswer) -> None:
        """The node holds nothing of it.

        Forget that, undo the others, look at the node with distrust.
        """
        node = holding.node
        self._forget(holding, group)
        node.refused(holding.prepare_sequence)
        if answer.reason != STALE_ATTEMPT:
            self.distrust(node, holding.prepare_sequence)
        self._state.room_changed(node)
        text = answer.message or answer.reason or "no reason given"
        group.message = f"node {node.node_id.hex()} refused: {text}"
        self.fail(group)

    def distrust(self, node: NodeRoom, sequence: int) -> None:
        """Leaves the node alone until a snapshot covers the refusal, or a moment has passed."""
        node.suspect_sequence = sequence
        node.suspect_until_ms = self._state.now_ms + SUSPECT_MS
        self._state.timers.arm(node.suspect_until_ms, TimerKind.SUSPECT, node.node_id)

    # ---- giving up an attempt, giving back bundles

    def fail(self, group: Group) -> None:
        """Undoes the group's attempt everywhere. The caller decides when to try again."""
        attempt = group.attempt
        if attempt is None:
            return
        group.attempt = None
        if group.state == PREPARED:
            numbers = group.attempts
            for position, number in enumerate(numbers):
                if number == attempt.number:
                    group.nodes[position] = None
                    numbers[position] = 0
            group.state = RESCHEDULING if group.ready_wall_ms else PENDING
            if not any(group.nodes):
                group.domain = ()
            self._state.persist(group)
        for holding in attempt.holdings:
            self.undo(holding, CANCEL)

    def undo(self, holding: Holding, action: ns.BundleAction.ValueType, reason: str = "") -> None:
        """Has the node give up the holding, whatever it made of it; repeated until it says so."""
        node = holding.node
        if holding.phase is Phase.UNDOING or node.holdings.get(holding.key) is not holding:
            return
        holding.phase = Phase.UNDOING
        holding.action = action
        holding.refusals = 0
        holding.reason = reason
        self.send_undo(holding)

    def send_undo(self, holding: Holding) -> None:
        """Sends (again) what undoes the holding; kept for later when the node is away."""
        node = holding.node
        if not node.connected:
            return
        holding.sequence = node.will_give_back(holding.amounts)
        self._state.out.append(SendBundle(node.node_id, holding.command()))
        self._arm_repeat(holding, COMMAND_REPEAT_MS)

    def send_commit(self, holding: Holding) -> None:
        """Sends (again) the commit; kept for later when the node is away."""
        node = holding.node
        holding.action = COMMIT
        if not node.connected:
            return
        holding.sequence = node.number_command()
        self._state.out.append(SendBundle(node.node_id, holding.command()))
        self._arm_repeat(holding, COMMAND_REPEAT_MS)

    def send_prepare_again(self, holding: Holding) -> None:
        """After a new session of its node: the same prepare under a new number."""
        self._prepare(holding, holding.action, checked=False)

    def undone(self, holding: Holding) -> Group | None:
        """The node gave it up: its room is free. The group it belonged to, if that still exists."""
        node = holding.node
        group = self._state.groups.get(holding.group_id)
        self._forget(holding, group)
        if holding.room_taken:
            node.gave_back(holding.sequence)
            self._state.room_changed(node)
        return group

    def _forget(self, holding: Holding, group: Group | None) -> None:
        node = holding.node
        if node.holdings.get(holding.key) is holding:
            del node.holdings[holding.key]
        if group is not None:
            group.holdings.pop((node.node_id, holding.attempt), None)
        if group is not None and group.attempt is not None:
            attempt = group.attempt
            attempt.holdings = [one for one in attempt.holdings if one is not holding]

    def forget(self, holding: Holding) -> Group | None:
        """The node is dead, and with it the holding."""
        group = self._state.groups.get(holding.group_id)
        node = holding.node
        node.holdings.pop(holding.key, None)
        if group is not None:
            group.holdings.pop((node.node_id, holding.attempt), None)
        return group

    # ---- repeating

    def refused_later(self, holding: Holding) -> None:
        """The node would not commit or undo just now: again after a growing delay."""
        delay = RETRY_DELAY_MS * RETRY_DELAY_FACTOR**holding.refusals
        holding.refusals += 1
        self._arm_repeat(holding, int(min(delay, RETRY_DELAY_MAX_MS)))

    def _arm_repeat(self, holding: Holding, delay_ms: int) -> None:
        node = holding.node
        due_ms = self._state.now_ms + delay_ms
        holding.repeat_at_ms = due_ms
        if node.repeat_at_ms == 0 or due_ms < node.repeat_at_ms:
            node.repeat_at_ms = due_ms
            self._state.timers.arm(due_ms, TimerKind.REPEAT, node.node_id)

    def repeat(self, node: NodeRoom) -> None:
        """The node's repeat time came: send again what is overdue, look again for the rest."""
        node.repeat_at_ms = 0
        if not node.connected:
            return
        now_ms = self._state.now_ms
        for holding in list(node.holdings.values()):
            if not holding.outstanding:
                continue
            if holding.repeat_at_ms > now_ms:
                self._arm_repeat(holding, holding.repeat_at_ms - now_ms)
            elif holding.phase is Phase.COMMITTING:
                self.send_commit(holding)
            else:
                self._count_removal_try(holding)
                # Which of two equal commands the node counted is unknown: only a snapshot will
                # tell.
                holding.room_taken = False
                self.send_undo(holding)

    def _count_removal_try(self, holding: Holding) -> None:
        group = self._state.groups.get(holding.group_id)
        if group is not None:
            group.removal_attempts += 1
