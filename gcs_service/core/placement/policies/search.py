"""Last resort for mixed bundles: a bounded depth-first search after the greedy passes.

Scarcest run first; for each bundle the nodes the group uses already, then one fresh node per class
and set of selectors (equal nodes make no difference). Gives up after SEARCH_STEPS_MAX placements: a
missed packing costs a wait, an unbounded search would cost everybody.
"""

from __future__ import annotations

from collections.abc import Iterator

from gcs_service.core.placement.limits import SEARCH_STEPS_MAX
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Choice, Run, Task


def place(task: Task) -> Choice | None:
    """A node for each bundle, or None. Only for tasks of several runs."""
    runs = sorted(task.runs, key=_candidates)
    bundles = [(run, position) for run in runs for position in run.positions]
    search = _Search(task)
    if not search.solve(bundles, 0):
        return None
    choice = Choice(task)
    for (run, position), node in zip(bundles, search.chosen, strict=True):
        choice.put(position, run.amounts, node)
    return choice


def _candidates(run: Run) -> int:
    return sum(
        len(run.space.members[room]) for _copies, room in run.space.tightest_first(run.amounts)
    )


class _Search:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._steps = 0
        self.chosen: list[NodeRoom] = []

    def solve(self, bundles: list[tuple[Run, int]], depth: int) -> bool:
        """Places `bundles[depth:]`; `chosen` holds the nodes of the earlier ones."""
        if depth == len(bundles):
            return True
        run, _position = bundles[depth]
        choice = Choice(self._task)
        for (earlier, position), node in zip(bundles, self.chosen, strict=False):
            choice.put(position, earlier.amounts, node)
        for node in self._options(choice, run):
            self._steps += 1
            if self._steps > SEARCH_STEPS_MAX:
                return False
            self.chosen.append(node)
            if self.solve(bundles, depth + 1):
                return True
            self.chosen.pop()
        return False

    def _options(self, choice: Choice, run: Run) -> Iterator[NodeRoom]:
        task = self._task
        for node in list(choice.used):
            room = choice.room(node)
            original = task.rooms.class_of(node)
            if room is None or original is None or not room.capacity(run.amounts):
                continue
            if node.order > task.newer_than and node in run.space.members.get(original, ()):
                yield node
        for _copies, room in run.space.tightest_first(run.amounts):
            seen: set[tuple[bool, ...]] = set()
            for node in choice.fresh(run.space, room):
                signature = tuple(node in other.space.members.get(room, ()) for other in task.runs)
                if signature not in seen:
                    seen.add(signature)
                    yield node
