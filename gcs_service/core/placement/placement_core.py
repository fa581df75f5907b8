"""The door of the placement core: nodes, groups and time come in, ordered effects go out.

One core places all groups of a cluster, one call at a time. What agents and clients send never
makes a method fail; a broken invariant of ours raises AssertionError.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.placement import single
from gcs_service.core.placement.answers import BundleAnswers
from gcs_service.core.placement.creation import Creation
from gcs_service.core.placement.deadlines import Deadlines
from gcs_service.core.placement.effects import Effect, GroupChanged, RemovalAccepted
from gcs_service.core.placement.group import PREPARED, REMOVING, Group
from gcs_service.core.placement.ledger_view import NodeLedgerView, ledger_view
from gcs_service.core.placement.limits import RESTART_WAIT_MS
from gcs_service.core.placement.loading import load_group
from gcs_service.core.placement.loss import LossRules
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.questions import Questions
from gcs_service.core.placement.reconcile import Reconciliation
from gcs_service.core.placement.removal import Removal
from gcs_service.core.placement.scheduling import Scheduling
from gcs_service.core.placement.single import NodePick, PickRequest
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.timers import TimerKind
from gcs_service.core.placement.two_phase import TwoPhaseCommit


class PlacementCore:
    """Placement groups of one cluster.

    `now_ms` is monotonic, `wall_ms` wall clock (for records only).
    """

    def __init__(self, random: random.Random, epoch: int = 1) -> None:
        self._dice = random
        self._state = PlacementState(epoch)
        self._two_phase = TwoPhaseCommit(self._state)
        self._scheduling = Scheduling(self._state, self._two_phase)
        self._removal = Removal(self._state, self._two_phase, self._scheduling)
        self._loss = LossRules(self._state, self._two_phase, self._scheduling)
        self._answers = BundleAnswers(self._state, self._two_phase, self._scheduling, self._removal)
        self._reconciliation = Reconciliation(
            self._state, self._two_phase, self._scheduling, self._loss, self._removal
        )
        self._creation = Creation(self._state, self._scheduling)
        self._questions = Questions(self._state, self._scheduling)
        self._deadlines = Deadlines(self._state, self._two_phase, self._scheduling, self._lose_node)

    def _begin(self, now_ms: int, wall_ms: int | None = None) -> None:
        state = self._state
        state.now_ms = max(state.now_ms, now_ms)
        if wall_ms is not None:
            state.wall_minus_now_ms = wall_ms - now_ms

    def _end(self) -> list[Effect]:
        """Gives places to whoever was woken, hands out the effects."""
        self._scheduling.run()
        out, self._state.out = self._state.out, []
        return out

    # ---- nodes

    def node_joined(
        self,
        node_id: bytes,
        address: str,
        labels: Mapping[str, str],
        snapshot: ns.ResourceSnapshot,
        held: Sequence[ns.HeldBundle],
        now_ms: int,
        *,
        draining: bool = False,
        is_head: bool = False,
    ) -> list[Effect]:
        """A session of the node starts (first or again): numbering of commands restarts at 1."""
        self._begin(now_ms)
        state = self._state
        node = state.node(node_id)
        state.index.drop(node)
        state.totals.drop(node)
        state.asked.drop(node)
        node.begin_session(address, labels, is_head=is_head)
        state.asked.put(node)
        node.report(snapshot)
        node.drain_ordered = draining
        node.drain_reported = snapshot.draining
        self._place_in_totals(node)
        self._reconciliation.agree(node, held)
        state.room_changed(node)
        return self._end()

    def node_disconnected(self, node_id: bytes) -> list[Effect]:
        """The session broke.

        Nothing new goes there, what is under way waits for its return or its death.
        """
        node = self._state.nodes.get(node_id)
        if node is not None and node.connected:
            node.connected = False
            self._state.room_changed(node)
        return self._end()

    def node_snapshot(
        self, node_id: bytes, snapshot: ns.ResourceSnapshot, now_ms: int
    ) -> list[Effect]:
        """A report of the node; one that is not newer than the last changes nothing."""
        self._begin(now_ms)
        state = self._state
        node = state.nodes.get(node_id)
        if node is None or not node.connected:
            return self._end()
        total = node.total_class
        if not node.report(snapshot):
            return self._end()
        if node.suspect and node.applied >= node.suspect_sequence:
            node.suspect_until_ms = 0
        relabelled = bool(snapshot.labels) and dict(snapshot.labels) != node.labels
        if relabelled:
            state.index.drop(node)
            state.totals.drop(node)
            node.labels = dict(snapshot.labels)
        draining = node.draining
        node.drain_reported = snapshot.draining
        if relabelled or node.total_class is not total or node.draining != draining:
            self._place_in_totals(node)
        state.room_changed(node)
        return self._end()

    def node_draining(self, node_id: bytes, *, draining: bool, now_ms: int) -> list[Effect]:
        """Nothing new goes to a draining node; a cancelled drain wakes who could use it."""
        self._begin(now_ms)
        node = self._state.nodes.get(node_id)
        if node is not None and node.joined:
            node.drain_ordered = draining
            node.drain_reported = draining
            self._place_in_totals(node)
            self._state.room_changed(node)
        return self._end()

    def _place_in_totals(self, node: NodeRoom) -> None:
        """Keeps the node's place in the index of totals: what could ever fit."""
        state = self._state
        if node.draining:
            state.draining[node] = None
            state.totals.drop(node)
            if node in state.claimed:
                self._claim_again()
        else:
            state.draining.pop(node, None)
            state.totals.put(node, node.total_class)

    def node_lost(self, node_id: bytes, now_ms: int) -> list[Effect]:
        """The node is dead, with everything it held.

        Also for nodes that never came back after a restart.
        """
        self._begin(now_ms)
        node = self._state.nodes.get(node_id)
        if node is not None:
            self._lose_node(node)
        return self._end()

    def _lose_node(self, node: NodeRoom) -> None:
        state = self._state
        del state.nodes[node.node_id]
        node.joined = False
        node.connected = False
        state.index.drop(node)
        state.totals.drop(node)
        state.asked.drop(node)
        if node in state.draining:
            # It counted for what is possible once its drain is cancelled.
            del state.draining[node]
            state.totals.version += 1
        for group in self._loss.node_lost(node):
            self._removal.settle(group)
            self._scheduling.gave_back(group)
        if node in state.claimed:
            self._claim_again()

    def _claim_again(self) -> None:
        claimant = self._state.claimant
        self._scheduling.fairness.release()
        if claimant is not None:
            self._scheduling.fairness.claim(claimant)

    # ---- groups

    def create(self, spec: pg.PlacementGroupSpec, now_ms: int, wall_ms: int) -> list[Effect]:
        """Makes the group (idempotent by id) or refuses it; tries to place it at once."""
        self._begin(now_ms, wall_ms)
        self._creation.create(spec)
        return self._end()

    def remove(self, placement_group_id: bytes, now_ms: int, wall_ms: int) -> list[Effect]:
        """Removes the group; answered even when nobody knows it."""
        self._begin(now_ms, wall_ms)
        group = self._state.groups.get(placement_group_id)
        if group is None:
            self._state.out.append(RemovalAccepted(placement_group_id))
            removed = self._state.removed.get(placement_group_id)
            if removed is not None:
                self._state.out.append(GroupChanged(removed))
        else:
            self._removal.remove(group, answer=True, reason="removed by its user")
        return self._end()

    def bundle_answer(
        self, node_id: bytes, answer: ns.BundleAnswer, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """A node answered a command."""
        self._begin(now_ms, wall_ms)
        node = self._state.nodes.get(node_id)
        if node is not None and node.connected:
            self._answers.take(node, answer)
        return self._end()

    def owner_ended(self, owner_id: bytes, now_ms: int) -> list[Effect]:
        """A driver ended: removes what it made itself.

        Not for workers (see `job_ended`, `actor_ended`).
        """
        self._begin(now_ms)
        for group in self._mortal_groups():
            if group.spec.creator_owner_id == owner_id and not group.spec.creator_actor_id:
                self._removal.remove(group, answer=False, reason="its creator ended")
        return self._end()

    def job_ended(self, job_id: bytes, now_ms: int) -> list[Effect]:
        """Removes the job's groups, but not detached ones nor those made by a detached actor."""
        self._begin(now_ms)
        for group in self._mortal_groups():
            if group.spec.job_id == job_id and not group.spec.creator_actor_detached:
                self._removal.remove(group, answer=False, reason="its job ended")
        return self._end()

    def actor_ended(self, actor_id: bytes, now_ms: int) -> list[Effect]:
        """An actor is dead for good: removes the groups it made."""
        self._begin(now_ms)
        for group in self._creation.of_actor(actor_id):
            if not group.spec.detached:
                self._removal.remove(group, answer=False, reason="the actor that made it died")
        return self._end()

    def _mortal_groups(self) -> list[Group]:
        return [group for group in self._state.groups.values() if not group.spec.detached]

    # ---- time

    def tick(self, now_ms: int) -> list[Effect]:
        """Carries out what is due."""
        self._begin(now_ms)
        self._deadlines.carry_out()
        return self._end()

    def next_deadline_ms(self) -> int | None:
        """When `tick` should be called next."""
        return self._state.timers.next_due_ms()

    # ---- start

    def load(
        self, records: Iterable[pg.PlacementGroupRecord], now_ms: int, epoch: int
    ) -> list[Effect]:
        """Takes the stored groups, once, before any node joins.

        `epoch` differs in each GCS life.
        """
        self._begin(now_ms)
        state = self._state
        assert not state.groups, "load comes first"
        state.epoch = epoch
        for record in sorted(records, key=lambda one: one.created_time_ms):
            group = load_group(state, self._two_phase, record)
            self._creation.index(group)
            if group.state == REMOVING:
                self._removal.settle(group)
            elif group.state == PREPARED and group.attempt and not group.attempt.holdings:
                self._two_phase.fail(group)
                self._scheduling.queue(group)
            elif group.attempt is None and group.missing:
                self._scheduling.queue(group)
        for node in state.nodes.values():
            state.timers.arm(state.now_ms + RESTART_WAIT_MS, TimerKind.RESTART, node.node_id)
        return self._end()

    # ---- questions

    def explain(self, placement_group_id: bytes) -> pg.ExplainResponse:
        """Why the group waits; `found` False when nobody knows it."""
        return self._questions.explain(placement_group_id)

    def waiting_texts(self, looks_max: int) -> dict[bytes, str]:
        """The sentence of `explain` for waiting groups, as many as `looks_max` looks allow."""
        return self._questions.waiting_texts(looks_max)

    @property
    def records_count(self) -> int:
        """Groups, with those removed lately."""
        return len(self._state.groups) + len(self._state.removed)

    def bounds(self) -> list[tuple[str, int, int]]:
        """Rows of its indexes and memos, and how many there can be (see `bounds_report`)."""
        return self._questions.bounds()

    def would_fit(self, spec: pg.PlacementGroupSpec) -> pg.ExplainResponse:
        """Dry run of `create`. Raises ValueError when the spec contradicts itself."""
        return self._questions.would_fit(spec)

    def record(self, placement_group_id: bytes) -> pg.PlacementGroupRecord | None:
        """The group's record, also of one removed lately."""
        return self._questions.record(placement_group_id)

    def by_name(self, namespace: str, name: str) -> pg.PlacementGroupRecord | None:
        """The living group of this name."""
        group_id = self._state.names.get((namespace, name))
        return None if group_id is None else self._questions.record(group_id)

    def records(self) -> list[pg.PlacementGroupRecord]:
        """Newest first, removed ones last."""
        return self._questions.records()

    def pending(self) -> list[pg.PlacementGroupSpec]:
        """Waiting groups with the bundles that still have no node, oldest first."""
        return self._questions.pending()

    def expected_nodes(self) -> list[bytes]:
        """Nodes that stored groups name and that have not joined since the restart."""
        return [node.node_id for node in self._state.nodes.values() if not node.joined]

    # ---- for demand

    def room_of(self, node_id: bytes) -> Mapping[str, int]:
        """Free room of a node as decisions see it; not to be changed."""
        node = self._state.nodes.get(node_id)
        return {} if node is None else node.room_class.room

    def take_touched_nodes(self) -> dict[bytes, None]:
        """Nodes whose room may have changed since the last call."""
        touched, self._state.touched = self._state.touched, {}
        return touched

    def take_changed_waits(self) -> dict[bytes, Group | None]:
        """Groups that began, ceased or go on to wait differently; None: it waits no more."""
        changed, self._state.waiting.changed = self._state.waiting.changed, {}
        groups = self._state.groups
        return {
            group_id: group if group_id in groups and _waits(group) else None
            for group_id, group in changed.items()
        }

    def ledger(self, node_id: bytes) -> NodeLedgerView | None:
        """What the GCS believes about the node's room (`shoal check-ledger`)."""
        node = self._state.nodes.get(node_id)
        return None if node is None else ledger_view(node)

    # ---- single leases of the GCS itself

    def pick_node(self, request: PickRequest) -> NodePick:
        """A node for one lease; reserves nothing."""
        return single.pick(self._state, self._dice, request)

    def reserve(self, node_id: bytes, resources: Mapping[str, int]) -> int:
        """Takes room for a start about to be sent; its number (0: the node is not connected)."""
        state = self._state
        node = state.nodes.get(node_id)
        if node is None or not node.connected:
            return 0
        number = node.reserve(state.table.intern(resources), checked=False)
        node.singles[number] = None
        state.room_taken(node)
        return number

    def release(self, node_id: bytes, reservation_seq: int, now_ms: int) -> list[Effect]:
        """The start was refused or never sent.

        After a new session of the node there is nothing to do.
        """
        self._begin(now_ms)
        node = self._state.nodes.get(node_id)
        if node is not None and node.connected and reservation_seq in node.singles:
            # A number of an earlier session may be a bundle's number now: that one stays.
            del node.singles[reservation_seq]
            node.refused(reservation_seq)
            self._state.room_changed(node)
        return self._end()


def _waits(group: Group) -> bool:
    """Whether it has no place and none is being prepared."""
    return group.parked or group.wait_class is not None
