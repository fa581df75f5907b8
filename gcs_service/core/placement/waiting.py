"""Groups without a place.

Groups that would get the same answer form one class and are asked about once.

A class that failed stays silent until some node's room grows for one of its shapes; a node's change
looks only at the shapes that wait. Order inside and between classes is the order of creation, but
no class waits for another one (overtaking is bounded in `fairness`).
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable

from cluster_common.labels import matches
from gcs_service.core.placement.amounts import Amounts, AmountsTable
from gcs_service.core.placement.availability_index import Selector
from gcs_service.core.placement.group import Group
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Shortfall, Wanted
from gcs_service.core.placement.request import STRICT_PACK, Shape, sum_shape
from gcs_service.core.placement.room_class import RoomClass


class WaitClass:
    """Groups with equal wants, oldest first."""

    __slots__ = (
        "at_best",
        "dirty",
        "failed",
        "feasible",
        "groups",
        "judged_version",
        "number",
        "shapes",
        "shortfall",
        "wanted",
    )

    def __init__(self, number: int, wanted: Wanted, shapes: tuple[Shape, ...]) -> None:
        self.number = number
        self.wanted = wanted
        self.shapes = shapes
        self.groups: list[Group] = []
        self.failed = False
        self.dirty = False
        self.shortfall: Shortfall | None = None
        self.feasible = True
        self.at_best = ""
        """How far the best domain is from holding it when empty; for the sentence."""
        self.judged_version = -1
        """Version of the index of totals at which `feasible` was found."""

    @property
    def head(self) -> Group:
        """The oldest."""
        return self.groups[0]

    def concerns(self, node: NodeRoom) -> bool:
        """Whether the node may be chosen at all.

        It joined late enough, it is in the decided domain.
        """
        wanted = self.wanted
        if node.order <= wanted.newer_than:
            return False
        if not wanted.domain:
            return True
        labels = wanted.request.packed_labels
        return tuple(node.labels.get(label) for label in labels) == wanted.domain


class WaitingGroups:
    """All waiting groups, by class and by shape."""

    def __init__(self, table: AmountsTable) -> None:
        self._table = table
        self._classes: dict[Wanted, WaitClass] = {}
        self._by_amounts: dict[Amounts, dict[Selector, dict[WaitClass, None]]] = {}
        self._dirty: list[tuple[int, int, WaitClass]] = []
        self._count = 0
        self.changed: dict[bytes, Group] = {}
        """Groups that began or ceased to wait since somebody last looked (for demand)."""

    def __len__(self) -> int:
        return sum(len(wait.groups) for wait in self._classes.values())

    def __bool__(self) -> bool:
        return bool(self._classes)

    def classes(self) -> Iterable[WaitClass]:
        """All classes in the order they were made; not to be changed meanwhile."""
        return self._classes.values()

    def join(self, group: Group, *, try_now: bool) -> None:
        """The group waits. It is tried now unless its class is known to fail at this moment."""
        assert group.wait_class is None, f"group {group.group_id.hex()} waits already"
        wanted = group.wanted()
        wait = self._classes.get(wanted)
        if wait is None:
            wait = self._make(wanted)
        bisect.insort(wait.groups, group, key=lambda one: one.order)
        group.wait_class = wait
        self.changed[group.group_id] = group
        if try_now and not wait.failed:
            self.wake(wait)

    def _make(self, wanted: Wanted) -> WaitClass:
        self._count += 1
        shapes = tuple(
            dict.fromkeys(wanted.request.shapes[position] for position in wanted.positions)
        )
        if wanted.request.strategy == STRICT_PACK:
            every = tuple(wanted.request.shapes[position] for position in wanted.positions)
            shapes = (sum_shape(every, self._table),)
        wait = WaitClass(self._count, wanted, shapes)
        self._classes[wanted] = wait
        for shape in shapes:
            by_selector = self._by_amounts.setdefault(shape.amounts, {})
            by_selector.setdefault(shape.selector, {})[wait] = None
        return wait

    def leave(self, group: Group) -> None:
        """The group waits no more; no effect if it did not."""
        wait = group.wait_class
        if wait is None:
            return
        group.wait_class = None
        self.changed[group.group_id] = group
        at = bisect.bisect_left(wait.groups, group.order, key=lambda one: one.order)
        assert wait.groups[at] is group, f"group {group.group_id.hex()} is not in its class"
        del wait.groups[at]
        if wait.groups:
            return
        del self._classes[wait.wanted]
        for shape in wait.shapes:
            by_selector = self._by_amounts[shape.amounts]
            del by_selector[shape.selector][wait]
            if not by_selector[shape.selector]:
                del by_selector[shape.selector]
                if not by_selector:
                    del self._by_amounts[shape.amounts]

    def wake(self, wait: WaitClass) -> None:
        """Have its oldest group tried."""
        wait.failed = False
        if not wait.dirty and wait.groups:
            wait.dirty = True
            heapq.heappush(self._dirty, (wait.head.order, wait.number, wait))

    def grew(self, node: NodeRoom, before: RoomClass, after: RoomClass) -> None:
        """A node's room grew somewhere: wake the classes whose shape may fare better there."""
        for amounts, by_selector in self._by_amounts.items():
            if not after.grew(before, amounts):
                continue
            for selector, waits in by_selector.items():
                if not matches(selector, node.labels):
                    continue
                for wait in waits:
                    if not wait.dirty and wait.concerns(node):
                        self.wake(wait)

    def next_woken(self) -> WaitClass | None:
        """The woken class with the oldest group; it is not woken any more."""
        while self._dirty:
            order, _number, wait = heapq.heappop(self._dirty)
            if not wait.groups:
                wait.dirty = False
                continue
            if wait.head.order != order:
                heapq.heappush(self._dirty, (wait.head.order, wait.number, wait))
                continue
            wait.dirty = False
            return wait
        return None
