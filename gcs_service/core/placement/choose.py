"""The one way to a plan: pick the domain, then the nodes in it. Reads the index, changes nothing.

Cost follows the group: the best domain is a bucket look-up, the nodes come from its classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gcs_service.core.placement.amounts import AmountsTable
from gcs_service.core.placement.availability_index import AvailabilityIndex, Selector
from gcs_service.core.placement.domain_fits import DomainFits, DomainValue
from gcs_service.core.placement.limits import (
    DOMAIN_SEARCHES_MAX,
    DOMAIN_TRIALS_MAX,
    SEARCH_BUNDLES_MAX,
)
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import (
    DOMAIN_INCOMPLETE,
    NO_ROOM,
    Choice,
    Plan,
    Shortfall,
    Task,
    Wanted,
    grouped_positions,
    runs_of,
)
from gcs_service.core.placement.policies import (
    levels,
    pack,
    search,
    spread,
    strict_pack,
    strict_spread,
)
from gcs_service.core.placement.pool import ListedSpace, Space
from gcs_service.core.placement.request import (
    PACK,
    SPREAD,
    STRICT_PACK,
    STRICT_SPREAD,
    Shape,
    sum_shape,
)

_NODE_RULES: dict[int, Callable[[Task], Choice | None]] = {
    PACK: pack.place,
    SPREAD: spread.place,
    STRICT_SPREAD: strict_spread.place,
}
_NOTHING = ListedSpace()


def choose(index: AvailabilityIndex, table: AmountsTable, wanted: Wanted) -> Plan | Shortfall:
    """Nodes for the wanted bundles, or why there are none."""
    grouped = grouped_positions(wanted.request, wanted.positions)
    stayed: dict[NodeRoom, int] = {}
    for node in wanted.stayed:
        stayed[node] = stayed.get(node, 0) + 1
    attempt = _Attempt(index, table, wanted, grouped, stayed)
    if not wanted.request.packed_labels:
        for shape in grouped:
            if not index.pool(shape.selector).shape(shape.amounts).buckets:
                return Shortfall(NO_ROOM)
        choice = attempt.inside(None)
        return Shortfall(NO_ROOM) if choice is None else attempt.plan(choice, ())
    for tried, value in enumerate(attempt.domains()):
        choice = attempt.inside(value)
        if choice is not None:
            return attempt.plan(choice, value)
        if tried + 1 >= DOMAIN_TRIALS_MAX:
            break
    return attempt.shortfall()


class _Attempt:
    """One pass over the index for one `Wanted`."""

    __slots__ = (
        "_grouped",
        "_index",
        "_needs",
        "_searches",
        "_stayed",
        "_table",
        "_wanted",
        "_whole",
    )

    def __init__(
        self,
        index: AvailabilityIndex,
        table: AmountsTable,
        wanted: Wanted,
        grouped: dict[Shape, list[int]],
        stayed: dict[NodeRoom, int],
    ) -> None:
        self._index = index
        self._table = table
        self._wanted = wanted
        self._grouped = grouped
        self._stayed = stayed
        self._whole: Shape | None = None
        if wanted.request.strategy == STRICT_PACK:
            shapes = wanted.request.shapes
            self._whole = sum_shape(tuple(shapes[at] for at in wanted.positions), table)
        self._needs: list[tuple[DomainFits, int]] = []
        self._searches = 0

    def plan(self, choice: Choice, domain: DomainValue) -> Plan:
        """The choice in the order of the wanted positions."""
        nodes = choice.nodes
        return Plan([nodes[position] for position in self._wanted.positions], domain)

    def domains(self) -> Iterator[DomainValue]:
        """Domains that may hold everything, tightest first; the decided one only, if one is."""
        self._needs = self._count_needs()
        if self._wanted.domain:
            candidates: Iterator[DomainValue] = iter((self._wanted.domain,))
        else:
            lead, wanted = self._needs[0]
            candidates = lead.at_least(wanted)
        for value in candidates:
            if all(fits.score.get(value, 0) >= count for fits, count in self._needs):
                yield value

    def _count_needs(self) -> list[tuple[DomainFits, int]]:
        """(scores, least score a domain needs) for each shape, the largest need first."""
        key = self._wanted.request.packed_labels
        if self._whole is not None:
            pool = self._index.pool(self._whole.selector)
            return [(pool.table(key).fits_of(self._whole.amounts, by_slots=False), 1)]
        by_slots = self._wanted.request.strategy != STRICT_SPREAD
        needs = [
            (
                self._index.pool(shape.selector)
                .table(key)
                .fits_of(shape.amounts, by_slots=by_slots),
                len(positions),
            )
            for shape, positions in self._grouped.items()
        ]
        if len(needs) > 1:
            needs.sort(key=lambda need: -need[1])
        return needs

    def inside(self, domain: DomainValue | None) -> Choice | None:
        """Nodes inside one domain (None: anywhere) by the group's other rules."""
        request = self._wanted.request
        runs = runs_of(self._grouped, lambda selector: self._space(selector, domain))
        task = Task(
            runs,
            self._stayed,
            self._wanted.newer_than,
            request.soft_target,
            self._table,
            self._index,
        )
        if self._whole is not None:
            return strict_pack.place(task, self._space(self._whole.selector, domain), self._whole)
        loose = request.loose_levels
        if loose:
            return levels.place(task, loose, request.strategy)
        choice = _NODE_RULES[request.strategy](task)
        # STRICT_SPREAD is exact already, and so are equal bundles.
        if choice is not None or len(runs) == 1 or request.strategy == STRICT_SPREAD:
            return choice
        if self._searches >= DOMAIN_SEARCHES_MAX or task.bundle_count > SEARCH_BUNDLES_MAX:
            return None
        self._searches += 1
        return search.place(task)

    def _space(self, selector: Selector, domain: DomainValue | None) -> Space:
        pool = self._index.pool(selector)
        if domain is None:
            return pool
        return pool.table(self._wanted.request.packed_labels).spaces.get(domain, _NOTHING)

    def shortfall(self) -> Shortfall:
        """The best domain and what it lacks, for the shape that lacks most there."""
        label = "/".join(self._wanted.request.packed_labels)
        fits, count = self._needs[0]
        value, score = fits.best()
        if self._wanted.domain:
            value = self._wanted.domain
            score = fits.score.get(value, 0)
        for other, other_count in self._needs[1:]:
            other_score = other.score.get(value, 0)
            if other_count - other_score > count - score:
                score, count = other_score, other_count
        return Shortfall(DOMAIN_INCOMPLETE, label, value, score, count)
