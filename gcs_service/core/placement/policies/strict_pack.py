"""STRICT_PACK: all bundles on one node, the tightest that holds their sum."""

from __future__ import annotations

from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Choice, Task
from gcs_service.core.placement.pool import Space
from gcs_service.core.placement.request import Shape


def place(task: Task, space: Space, whole: Shape) -> Choice | None:
    """`whole` is the sum of the bundles, `space` the nodes that pass every bundle's selector."""
    choice = Choice(task)
    node = _node(task, choice, space, whole)
    if node is None:
        return None
    for run in task.runs:
        for position in run.positions:
            choice.put(position, run.amounts, node)
    return choice


def _node(task: Task, choice: Choice, space: Space, whole: Shape) -> NodeRoom | None:
    if task.stayed:
        # A bundle that stayed binds the rest to its node.
        bound = list(task.stayed)
        room = choice.room(bound[0])
        single = len(bound) == 1 and room is not None and room.capacity(whole.amounts) > 0
        return bound[0] if single else None
    target = _soft_target(task, space, whole) if task.soft_target else None
    if target is not None:
        return target
    for _capacity, room in space.tightest_first(whole.amounts):
        for node in choice.fresh(space, room):
            return node
    return None


def _soft_target(task: Task, space: Space, whole: Shape) -> NodeRoom | None:
    node = task.rooms.by_id(task.soft_target)
    room = None if node is None else task.rooms.class_of(node)
    if node is None or room is None or not room.capacity(whole.amounts):
        return None
    return node if node in space.members.get(room, ()) else None
