"""SPREAD: a node of its own for each bundle while there are any (emptiest first).

Then reuse evenly.
"""

from __future__ import annotations

import heapq

from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Choice, Run, Task


def place(task: Task) -> Choice | None:
    """A node for each bundle, or None."""
    choice = Choice(task)
    for run in task.runs:
        rest = _on_fresh_nodes(choice, run)
        if rest and not _on_used_nodes(task, choice, run, rest):
            return None
    return choice


def _on_fresh_nodes(choice: Choice, run: Run) -> list[int]:
    """Places what it can on unused nodes; the positions left over."""
    rest = list(reversed(run.positions))
    for _capacity, room in run.space.roomiest_first(run.amounts):
        for node in run.space.members[room]:
            if not rest:
                return rest
            if node not in choice.used and node.order > choice.newer_than:
                choice.put(rest.pop(), run.amounts, node)
        if not rest:
            break
    return rest


def _on_used_nodes(task: Task, choice: Choice, run: Run, rest: list[int]) -> bool:
    """Least used first; a node that is full for this shape leaves the heap."""
    heap: list[tuple[int, int]] = []
    by_order: dict[int, NodeRoom] = {}
    for node, count in choice.used.items():
        original = task.rooms.class_of(node)
        if original is None or node not in run.space.members.get(original, ()):
            continue
        if node.order > choice.newer_than:
            by_order[node.order] = node
            heap.append((count, node.order))
    heapq.heapify(heap)
    while rest and heap:
        count, order = heapq.heappop(heap)
        node = by_order[order]
        room = choice.room(node)
        if room is None or not room.capacity(run.amounts):
            continue
        choice.put(rest.pop(), run.amounts, node)
        heapq.heappush(heap, (count + 1, order))
    return not rest
