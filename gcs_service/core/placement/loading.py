"""Groups as the storage had them, at the start of a new life of the GCS.

Their nodes are expected, not joined: a node that registers is compared (`reconcile`), a node
declared dead is lost, and one that does neither for RESTART_WAIT_MS is lost too.
"""

from __future__ import annotations

from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.placement.group import (
    CREATED,
    PENDING,
    PREPARED,
    REMOVING,
    RESCHEDULING,
    Attempt,
    Group,
)
from gcs_service.core.placement.holding import Holding, Phase
from gcs_service.core.placement.limits import PREPARE_ANSWER_MS
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.request import parse_request
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.timers import TimerKind
from gcs_service.core.placement.two_phase import COMMIT, RETURN, TwoPhaseCommit


def load_group(
    state: PlacementState, two_phase: TwoPhaseCommit, record: pg.PlacementGroupRecord
) -> Group:
    """The group of a stored row, with its holdings on nodes that are expected to come back."""
    group = Group(record.spec, parse_request(record.spec, state.table), state.next_group_order())
    state.enter(group)
    group.state = record.state
    group.last_attempt = record.attempt
    group.version = record.version
    group.created_wall_ms = record.created_time_ms
    group.created_now_ms = state.now_ms
    group.ready_wall_ms = record.ready_time_ms
    group.overtaken = record.overtaken
    group.tries = record.scheduling_attempts
    group.latency_ms = record.scheduling_latency_ms
    group.removal_attempts = record.removal_attempts
    group.longest_delay_ms = record.highest_retry_delay_ms
    group.reason = record.reason
    group.message = record.message
    labels = group.request.packed_labels
    assigned = record.topology_assignment
    if all(label in assigned for label in labels):
        group.domain = tuple(assigned[label] for label in labels)
    if group.state in (PREPARED, CREATED, RESCHEDULING, REMOVING):
        _restore_places(state, group, record)
        _restore_holdings(state, two_phase, group)
    else:
        assert group.state == PENDING, f"stored group {group.group_id.hex()} has {group.state}"
    return group


def _restore_places(state: PlacementState, group: Group, record: pg.PlacementGroupRecord) -> None:
    for position, node_id in enumerate(record.bundle_nodes):
        if node_id:
            node = state.node(node_id)
            node.address = node.address or record.bundle_addresses[position]
            group.nodes[position] = node
            group.attempts[position] = record.bundle_attempts[position]


def _restore_holdings(state: PlacementState, two_phase: TwoPhaseCommit, group: Group) -> None:
    by_key: dict[tuple[NodeRoom, int], list[int]] = {}
    for position, node in enumerate(group.nodes):
        if node is not None:
            by_key.setdefault((node, group.attempts[position]), []).append(position)
    attempt: Attempt | None = None
    if group.state == PREPARED:
        attempt = Attempt(group.last_attempt, group.domain)
        attempt.committing = True
        group.attempt = attempt
    shapes = group.request.shapes
    for (node, number), positions in by_key.items():
        phase = Phase.COMMITTED
        if group.state == REMOVING:
            phase = Phase.UNDOING
        elif attempt is not None and number == attempt.number:
            phase = Phase.COMMITTING
        bundles = tuple((position, shapes[position].amounts) for position in positions)
        amounts = state.table.sum([one for _position, one in bundles])
        holding = Holding(node, group.group_id, number, bundles, amounts, phase)
        holding.action = RETURN if phase is Phase.UNDOING else COMMIT
        two_phase.keep(group, holding)
        if attempt is not None and phase is Phase.COMMITTING:
            attempt.holdings.append(holding)
    if attempt is not None:
        attempt.waiting = len(attempt.holdings)
        attempt.deadline_ms = state.now_ms + PREPARE_ANSWER_MS
        state.timers.arm(attempt.deadline_ms, TimerKind.ATTEMPT, group.group_id)
