"""STRICT_SPREAD: every bundle on a node of its own, none of them used by a bundle that stayed.

Equal bundles need one pass. Mixed ones are tried hardest first, tightest node first; where that
greedy pass fails although an assignment exists (two shapes that fight for one node), augmenting
paths find it.
"""

from __future__ import annotations

from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Choice, Run, Task


def place(task: Task) -> Choice | None:
    """A node for each bundle, or None."""
    choice = Choice(task)
    used = choice.used
    newer_than = task.newer_than
    for run in task.runs:
        missing = len(run.positions)
        amounts = run.amounts
        for _capacity, room in run.space.tightest_first(amounts):
            for node in run.space.members[room]:
                if node in used or node.order <= newer_than:
                    continue
                choice.put(run.positions[-missing], amounts, node)
                missing -= 1
                if not missing:
                    break
            if not missing:
                break
        if missing:
            return _matched(task) if len(task.runs) > 1 else None
    return choice


def _matched(task: Task) -> Choice | None:
    """Bipartite matching of bundles and nodes.

    A run needs no more candidates than there are bundles in all: with that many, its bundles can
    always be served last.
    """
    choice = Choice(task)
    candidates = [_candidates(choice, run, task.bundle_count) for run in task.runs]
    owner: dict[NodeRoom, tuple[int, int]] = {}
    for number, run in enumerate(task.runs):
        for position in run.positions:
            if not _augment(number, position, candidates, owner):
                return None
    for node, (number, position) in owner.items():
        choice.put(position, task.runs[number].amounts, node)
    return choice


def _candidates(choice: Choice, run: Run, enough: int) -> list[NodeRoom]:
    found: list[NodeRoom] = []
    for _capacity, room in run.space.tightest_first(run.amounts):
        for node in choice.fresh(run.space, room):
            found.append(node)
            if len(found) >= enough:
                return found
    return found


def _augment(
    number: int,
    position: int,
    candidates: list[list[NodeRoom]],
    owner: dict[NodeRoom, tuple[int, int]],
) -> bool:
    """Breadth-first search for a free node, moving earlier bundles along the path."""
    came_from: dict[NodeRoom, NodeRoom | None] = {}
    frontier: list[tuple[int, NodeRoom | None]] = [(number, None)]
    while frontier:
        following: list[tuple[int, NodeRoom | None]] = []
        for run_number, parent in frontier:
            for node in candidates[run_number]:
                if node in came_from:
                    continue
                came_from[node] = parent
                held = owner.get(node)
                if held is None:
                    _shift(node, came_from, owner, (number, position))
                    return True
                following.append((held[0], node))
        frontier = following
    return False


def _shift(
    free: NodeRoom,
    came_from: dict[NodeRoom, NodeRoom | None],
    owner: dict[NodeRoom, tuple[int, int]],
    newcomer: tuple[int, int],
) -> None:
    node = free
    parent = came_from[node]
    while parent is not None:
        owner[node] = owner[parent]
        node, parent = parent, came_from[parent]
    owner[node] = newcomer
