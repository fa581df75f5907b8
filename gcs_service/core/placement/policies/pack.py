"""PACK: as few nodes as it easily gets, several are allowed.

First one node for all; then the node that takes the rest of the hardest shape (the tightest such),
or else the one that takes most of it, filled with whatever else fits; and so on. If that leaves
bundles over, they go one by one wherever they fit.
"""

from __future__ import annotations

from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Choice, Run, Task
from gcs_service.core.placement.request import sum_shape


def place(task: Task) -> Choice | None:
    """A node for each bundle, or None."""
    return _fill_nodes(task) or _one_by_one(task)


def _fill_nodes(task: Task) -> Choice | None:
    choice = Choice(task)
    left = [run.positions[::-1] for run in task.runs]
    for node in task.stayed:
        _fill(task, choice, left, node)
    if len(task.runs) > 1 and not task.stayed:
        node = _node_for_all(task, choice)
        if node is not None:
            _fill(task, choice, left, node)
    for number, run in enumerate(task.runs):
        while left[number]:
            node = _best_node(choice, run, len(left[number]))
            if node is None:
                return None
            _fill(task, choice, left, node)
    return choice


def _node_for_all(task: Task, choice: Choice) -> NodeRoom | None:
    shapes = tuple(run.shape for run in task.runs for _position in run.positions)
    whole = sum_shape(shapes, task.table)
    for _capacity, room in task.runs[0].space.tightest_first(whole.amounts):
        for node in choice.fresh(task.runs[0].space, room):
            if all(node in run.space.members.get(room, ()) for run in task.runs):
                return node
    return None


def _best_node(choice: Choice, run: Run, missing: int) -> NodeRoom | None:
    """The tightest node that takes all the run's rest, or the one that takes most."""
    for capacity, room in run.space.tightest_first(run.amounts):
        if capacity < missing:
            continue
        for node in choice.fresh(run.space, room):
            return node
    for _capacity, room in run.space.roomiest_first(run.amounts):
        for node in choice.fresh(run.space, room):
            return node
    return None


def _fill(task: Task, choice: Choice, left: list[list[int]], node: NodeRoom) -> None:
    """Everything that fits, hardest first. A run's selector is checked by its space."""
    original = task.rooms.class_of(node)
    if original is None or node.order <= task.newer_than:
        return
    for run, positions in zip(task.runs, left, strict=True):
        if not positions or node not in run.space.members.get(original, ()):
            continue
        room = choice.room(node)
        assert room is not None
        for _ in range(min(len(positions), room.capacity(run.amounts))):
            choice.put(positions.pop(), run.amounts, node)


def _one_by_one(task: Task) -> Choice | None:
    """Each bundle on the tightest node with room, used nodes first."""
    choice = Choice(task)
    for run in task.runs:
        for position in run.positions:
            node = used_with_room(task, choice, run) or _tightest_fresh(choice, run)
            if node is None:
                return None
            choice.put(position, run.amounts, node)
    return choice


def used_with_room(task: Task, choice: Choice, run: Run) -> NodeRoom | None:
    """A node the group uses already that can take one more of the run."""
    for node in choice.used:
        room = choice.room(node)
        original = task.rooms.class_of(node)
        if room is None or original is None or not room.capacity(run.amounts):
            continue
        if node.order > task.newer_than and node in run.space.members.get(original, ()):
            return node
    return None


def _tightest_fresh(choice: Choice, run: Run) -> NodeRoom | None:
    for _capacity, room in run.space.tightest_first(run.amounts):
        for node in choice.fresh(run.space, room):
            return node
    return None
