"""The facts all rules of the placement core share.

Nodes, groups, indexes, waiting groups, timers, effects.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.placement.amounts import Amounts, AmountsTable
from gcs_service.core.placement.asked_names import AskedNames
from gcs_service.core.placement.availability_index import AvailabilityIndex
from gcs_service.core.placement.effects import Effect, GroupChanged, PersistGroup
from gcs_service.core.placement.group import Group
from gcs_service.core.placement.limits import REMOVED_GROUPS_MAX
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.room_class import RoomClasses
from gcs_service.core.placement.timers import Timers
from gcs_service.core.placement.waiting import WaitingGroups


class PlacementState:
    """One per core. `out` collects the effects of the call that is running."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.now_ms = 0
        self.wall_minus_now_ms = 0
        self.classes = RoomClasses()
        self.table = AmountsTable()
        self.index = AvailabilityIndex()
        self.totals = AvailabilityIndex()
        self.nodes: dict[bytes, NodeRoom] = {}
        self.asked = AskedNames(self.nodes)
        self.draining: dict[NodeRoom, None] = {}
        self.groups: dict[bytes, Group] = {}
        self.removed: dict[bytes, pg.PlacementGroupRecord] = {}
        self.names: dict[tuple[str, str], bytes] = {}
        self.waiting = WaitingGroups(self.table)
        self.timers = Timers(self._lives)
        self.claimant: Group | None = None
        self.claimed: dict[NodeRoom, None] = {}
        self.out: list[Effect] = []
        self.touched: dict[bytes, None] = {}
        """Nodes whose room may be another one since somebody last looked (for demand)."""
        self.spread_last = b""
        """The node that took the last lease of those that are spread."""
        self._nodes_made = 0
        self._groups_made = 0

    def node(self, node_id: bytes) -> NodeRoom:
        """The node, made (not joined) if it is new."""
        found = self.nodes.get(node_id)
        if found is None:
            self._nodes_made += 1
            found = self.nodes[node_id] = NodeRoom(node_id, self._nodes_made, self.classes)
        return found

    @property
    def newest_node_order(self) -> int:
        """Order number of the node that came last."""
        return self._nodes_made

    def _lives(self, owner: bytes) -> bool:
        return owner in self.groups or owner in self.nodes

    def next_group_order(self) -> int:
        """Groups are numbered as they are created."""
        self._groups_made += 1
        return self._groups_made

    @property
    def wall_ms(self) -> int:
        """Wall clock, as of the last call that told it."""
        return self.now_ms + self.wall_minus_now_ms

    def enter(self, group: Group) -> None:
        """A new group."""
        self.groups[group.group_id] = group
        if self.table.names_asked:
            self._recounted(self.asked.ask(group.request.identity))

    def leave(self, group: Group) -> None:
        """The group is no more."""
        assert self.groups.pop(group.group_id, None) is group
        if self.table.names_asked:
            self._recounted(self.asked.cease(group.request.identity))

    def asks(self, amounts: Iterable[Amounts]) -> None:
        """A question, or a lease of the GCS itself, is about to look for room for these."""
        if self.table.names_asked:
            names = (name for each in amounts for name in each.identity)
            self._recounted(self.asked.keep(dict.fromkeys(names)))

    def _recounted(self, nodes: list[NodeRoom]) -> None:
        for node in nodes:
            if node in self.totals:
                self.totals.put(node, node.total_class)
            self.room_changed(node)

    def room_changed(self, node: NodeRoom) -> None:
        """Brings the index up to date and wakes groups for which the node's room grew."""
        self.touched[node.node_id] = None
        if not node.usable:
            self.index.drop(node)
            claimant = self.claimant
            if node.claimed_by and claimant is not None and claimant.wait_class is not None:
                self.waiting.wake(claimant.wait_class)
            return
        before = self.index.put(node, node.room_class)
        if before is not node.room_class and self.waiting:
            self.waiting.grew(node, before or self.classes.empty, node.room_class)

    def room_taken(self, node: NodeRoom) -> None:
        """As `room_changed` after a reservation: nobody can fare better."""
        self.touched[node.node_id] = None
        if node.usable:
            self.index.put(node, node.room_class)

    def persist(self, group: Group) -> None:
        """Writes the group's row, then tells its watchers."""
        group.version += 1
        record = group.record()
        self.out.append(PersistGroup(record))
        self.out.append(GroupChanged(record))

    def tell(self, group: Group) -> None:
        """Tells the watchers something that need not survive."""
        group.version += 1
        self.out.append(GroupChanged(group.record()))

    def remember_removed(self, record: pg.PlacementGroupRecord) -> None:
        """Keeps a removed group's last record for questions."""
        self.removed[record.spec.placement_group_id] = record
        if len(self.removed) > REMOVED_GROUPS_MAX:
            del self.removed[next(iter(self.removed))]
