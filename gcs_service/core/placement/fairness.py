"""Bounded overtaking: a group passed over OVERTAKES_MAX times gets what becomes free kept for it.

One group at a time, the oldest. It claims as many nodes as it will need, where it is closest to
fitting; nobody else is given room there until it is placed, removed or proves impossible.
"""

from __future__ import annotations

from cluster_common.labels import matches
from gcs_service.core.placement.choose import choose
from gcs_service.core.placement.group import Group
from gcs_service.core.placement.limits import OVERTAKEN_CHECKED_MAX, OVERTAKES_MAX
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Plan, Wanted, grouped_positions
from gcs_service.core.placement.request import STRICT_PACK, STRICT_SPREAD, Shape, sum_shape
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.waiting import WaitClass


class Fairness:
    """Counts overtakes and holds the claims."""

    def __init__(self, state: PlacementState) -> None:
        self._state = state

    def placed(self, winner: Group, plan: Plan) -> None:
        """Counts the winner against older groups that could use one of its nodes."""
        waiting = self._state.waiting
        if not waiting:
            return
        checked = 0
        starving: Group | None = None
        for wait in waiting.classes():
            loser = wait.head
            if loser.order > winner.order or not wait.failed or not wait.feasible:
                continue
            checked += 1
            if checked > OVERTAKEN_CHECKED_MAX:
                break
            if _could_use(wait, plan.nodes):
                loser.overtaken += 1
                if loser.overtaken >= OVERTAKES_MAX and (
                    starving is None or loser.order < starving.order
                ):
                    starving = loser
        if starving is not None and self._state.claimant is None:
            self.claim(starving)

    def claim(self, group: Group) -> None:
        """Keeps for the group the nodes where it is closest to fitting."""
        state = self._state
        nodes = self._closest(group.wanted())
        if not nodes:
            return
        state.claimant = group
        for node in nodes:
            state.claimed[node] = None
            node.claimed_by = group.group_id
            state.index.drop(node)

    def lift(self) -> None:
        """Nobody claims anything any more. Does not wake anyone: see `release`."""
        state = self._state
        state.claimant = None
        nodes = list(state.claimed)
        state.claimed.clear()
        for node in nodes:
            node.claimed_by = b""
            if node.usable:
                state.index.put(node, node.room_class)

    def release(self) -> None:
        """The claimant is placed or gone: others may have what it kept."""
        state = self._state
        nodes = list(state.claimed)
        self.lift()
        for node in nodes:
            if node.usable and state.waiting:
                state.waiting.grew(node, state.classes.empty, node.room_class)

    def _closest(self, wanted: Wanted) -> list[NodeRoom]:
        """Nodes that could hold the bundles by their totals, nearest to having the room first."""
        request = wanted.request
        grouped = grouped_positions(request, wanted.positions)
        if request.strategy == STRICT_PACK:
            shapes = tuple(request.shapes[position] for position in wanted.positions)
            grouped = {sum_shape(shapes, self._state.table): [0]}
        domain = self._domain(wanted)
        if domain is None:
            return []
        chosen: dict[NodeRoom, None] = {}
        for shape, positions in grouped.items():
            self._claim_for(shape, len(positions), wanted, domain, chosen)
        return list(chosen)

    def _claim_for(
        self,
        shape: Shape,
        copies: int,
        wanted: Wanted,
        domain: tuple[str, ...],
        chosen: dict[NodeRoom, None],
    ) -> None:
        one_each = wanted.request.strategy == STRICT_SPREAD
        pool = self._state.totals.pool(shape.selector)
        space = pool.table(wanted.request.packed_labels).spaces.get(domain) if domain else pool
        if space is None:
            return
        ranked: list[tuple[int, int, NodeRoom]] = []
        for room, nodes in space.members.items():
            if not room.capacity(shape.amounts):
                continue
            ranked.extend(
                (-_closeness(node, shape), node.order, node)
                for node in nodes
                if node not in chosen
                and node.order > wanted.newer_than
                and node.connected
                and not (one_each and node in wanted.stayed)
            )
        ranked.sort(key=lambda entry: entry[:2])
        for _distance, _order, node in ranked:
            if copies <= 0:
                return
            chosen[node] = None
            copies -= 1 if one_each else node.total_class.capacity(shape.amounts)

    def _domain(self, wanted: Wanted) -> tuple[str, ...] | None:
        """The domain to wait for.

        The decided one, else the closest that is big enough by totals.
        """
        labels = wanted.request.packed_labels
        if wanted.domain or not labels:
            return wanted.domain
        state = self._state
        if not isinstance(choose(state.totals, state.table, wanted), Plan):
            return None
        grouped = grouped_positions(wanted.request, wanted.positions)
        shape, positions = max(grouped.items(), key=lambda item: len(item[1]))
        by_slots = wanted.request.strategy != STRICT_SPREAD
        amounts = shape.amounts
        needed = len(positions)
        if wanted.request.strategy == STRICT_PACK:
            shapes = tuple(wanted.request.shapes[position] for position in wanted.positions)
            amounts = sum_shape(shapes, state.table).amounts
            by_slots, needed = False, 1
        totals = state.totals.pool(shape.selector).table(labels)
        free = state.index.pool(shape.selector).table(labels).fits_of(amounts, by_slots=by_slots)
        best: tuple[int, tuple[str, ...]] | None = None
        for value in totals.fits_of(amounts, by_slots=by_slots).at_least(needed):
            score = free.score.get(value, 0)
            if best is None or score > best[0]:
                best = (score, value)
        return None if best is None else best[1]


def _could_use(wait: WaitClass, nodes: list[NodeRoom]) -> bool:
    for shape in wait.shapes:
        for node in nodes:
            if (
                node.total_class.capacity(shape.amounts)
                and wait.concerns(node)
                and matches(shape.selector, node.labels)
            ):
                return True
    return False


def _closeness(node: NodeRoom, shape: Shape) -> int:
    """How near the node is to holding the shape.

    Copies that fit, then the scarcest share in per mille.
    """
    room = node.room_class
    share = min(
        (max(0, room.room.get(name, 0)) * 1000 // amount for name, amount in shape.amounts.items),
        default=0,
    )
    return room.capacity(shape.amounts) * 1_000_000 + min(share, 999_999)
