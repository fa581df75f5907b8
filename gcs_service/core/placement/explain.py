"""Why a group waits, in counts that add up.

Per bundle, fitting nodes + rejected nodes = nodes alive.

Looks at every node: asked for by people, never by the loop.
"""

from __future__ import annotations

from typing import NamedTuple

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common.labels import matches
from cluster_common.resources import fits, text
from gcs_service.core.placement.choose import choose
from gcs_service.core.placement.limits import BLOCKED_BY_MAX
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Plan, Shortfall, Wanted, grouped_positions
from gcs_service.core.placement.request import STRICT_PACK, STRICT_SPREAD, Shape, sum_shape
from gcs_service.core.placement.state import PlacementState

FITS = "fits"
INSUFFICIENT_FREE = "insufficient_free"
DOMAIN_INCOMPLETE = "domain_incomplete"


class Counts(NamedTuple):
    """Verdicts over all nodes alive for one shape."""

    fitting: dict[NodeRoom, None]
    rejected: dict[str, list[NodeRoom]]


class Explainer:
    """Judges every node for one `Wanted`; `group_id` is empty for a dry run."""

    def __init__(
        self, state: PlacementState, wanted: Wanted, result: Plan | Shortfall, group_id: bytes
    ) -> None:
        self._state = state
        self._wanted = wanted
        self._group_id = group_id
        self._nodes = [node for node in state.nodes.values() if node.joined]
        self._result = result
        self._counts: dict[Shape, Counts] = {}
        self._whole: Shape | None = None
        if wanted.request.strategy == STRICT_PACK and wanted.positions:
            shapes = tuple(wanted.request.shapes[position] for position in wanted.positions)
            self._whole = sum_shape(shapes, state.table)
        self._used_domains = self._domains_of_stayed()
        self._good_domains = self._domains_with_room()

    # ---- verdicts

    def verdict(self, node: NodeRoom, shape: Shape) -> str:
        """The first rule that keeps this shape off the node, or `fits`."""
        for rule in (self._verdict_of_node, self._verdict_of_place, self._verdict_of_room):
            token = rule(node, shape)
            if token is not None:
                return token
        return FITS

    @staticmethod
    def _verdict_of_node(node: NodeRoom, shape: Shape) -> str | None:
        if node.draining:
            return "draining"
        if not node.connected:
            return "disconnected"
        if not matches(shape.selector, node.labels):
            return "label_mismatch"
        if not node.total_class.capacity(shape.amounts):
            return "shape_too_large"
        return None

    def _verdict_of_place(self, node: NodeRoom, _shape: Shape) -> str | None:
        wanted = self._wanted
        if node.order <= wanted.newer_than:
            return "waiting_for_new_node"
        if wanted.request.strategy == STRICT_SPREAD and node in wanted.stayed:
            return "spread_rule"
        labels = wanted.request.packed_labels
        if labels:
            value = tuple(node.labels.get(label, "") for label in labels)
            if not all(value):
                return "label_mismatch"
            if wanted.domain and value != wanted.domain:
                return "other_domain"
        return self._verdict_of_levels(node)

    def _verdict_of_levels(self, node: NodeRoom) -> str | None:
        """Levels that are not packed into one domain, by the bundles that stayed."""
        path: tuple[str, ...] = ()
        for level in self._wanted.request.loose_levels:
            value = node.labels.get(level.label, "")
            if not value:
                return "label_mismatch"
            inside = self._used_domains.get(path, ())
            if level.strategy == STRICT_SPREAD and value in inside:
                return "spread_rule"
            if level.strategy == STRICT_PACK and inside and value not in inside:
                return "other_domain"
            path = (*path, value)
        return None

    def _domains_of_stayed(self) -> dict[tuple[str, ...], set[str]]:
        """Domain of the levels above -> domains in it that have a bundle."""
        used: dict[tuple[str, ...], set[str]] = {}
        for node in self._wanted.stayed:
            path: tuple[str, ...] = ()
            for level in self._wanted.request.loose_levels:
                value = node.labels.get(level.label, "")
                used.setdefault(path, set()).add(value)
                path = (*path, value)
        return used

    def _verdict_of_room(self, node: NodeRoom, shape: Shape) -> str | None:
        if node.claimed_by and node.claimed_by != self._group_id:
            return "queued_behind"
        if not fits(shape.amounts.vector, node.room_class.room) or node.suspect:
            return INSUFFICIENT_FREE
        if not node.room_class.capacity(shape.amounts):
            return "device_fragmentation"
        if self._good_domains is not None:
            value = tuple(
                node.labels.get(label, "") for label in self._wanted.request.packed_labels
            )
            if value not in self._good_domains:
                return DOMAIN_INCOMPLETE
        return None

    def _domains_with_room(self) -> set[tuple[str, ...]] | None:
        """Domains in which every shape has enough nodes or copies.

        None when domains do not matter.
        """
        request = self._wanted.request
        labels = request.packed_labels
        if not labels or not self._wanted.positions:
            return None
        if isinstance(self._result, Plan) and self._whole is None:
            return None
        index = self._state.index
        grouped = grouped_positions(request, self._wanted.positions)
        if self._whole is not None:
            grouped = {self._whole: [0]}
        by_slots = self._whole is None and request.strategy != STRICT_SPREAD
        good: set[tuple[str, ...]] | None = None
        for shape, positions in grouped.items():
            table = index.pool(shape.selector).table(labels)
            enough = set(table.fits_of(shape.amounts, by_slots=by_slots).at_least(len(positions)))
            good = enough if good is None else good & enough
        return good

    def counts(self, shape: Shape) -> Counts:
        """All nodes alive, by verdict."""
        found = self._counts.get(shape)
        if found is not None:
            return found
        judged = self._whole or shape
        counts = Counts({}, {})
        for node in self._nodes:
            token = self.verdict(node, judged)
            if token == FITS:
                counts.fitting[node] = None
            else:
                counts.rejected.setdefault(token, []).append(node)
        self._counts[shape] = counts
        return counts

    # ---- the answer's parts

    def bundle(self, index: int, shape: Shape, placed: NodeRoom | None) -> pg.BundleExplanation:
        """One bundle; the node it is on counts as fitting."""
        counts = self.counts(shape)
        rejected = {token: len(nodes) for token, nodes in counts.rejected.items()}
        fitting = len(counts.fitting)
        if placed is not None and placed.joined and placed not in counts.fitting:
            fitting += 1
            token = next(token for token, nodes in counts.rejected.items() if placed in nodes)
            rejected[token] -= 1
        return pg.BundleExplanation(
            index=index,
            resources=t.ResourceSet(amounts=shape.amounts.vector),
            placed_on=b"" if placed is None else placed.node_id,
            fitting_nodes=fitting,
            rejected={token: count for token, count in sorted(rejected.items()) if count},
        )

    def best_domain(self, *, empty: bool) -> pg.DomainExplanation | None:
        """The domain that comes closest, and what it lacks; `empty`: if nothing ran in any."""
        labels = self._wanted.request.packed_labels
        if not labels:
            return None
        name = "/".join(labels)
        short = self._result
        if empty:
            short = choose(self._state.totals, self._state.table, self._wanted)
        if isinstance(short, Plan):
            count = len(self._wanted.positions)
            value = "/".join(short.domain)
            return pg.DomainExplanation(label=name, value=value, fitting=count, wanted=count)
        need = self._largest_need()
        missing = max(0, short.wanted - short.fitting)
        lacks = (
            f"room for {missing} more x {need}" if missing else f"room for all of {need} at once"
        )
        return pg.DomainExplanation(
            label=name,
            value="/".join(short.value or self._largest_domain()),
            fitting=short.fitting,
            wanted=short.wanted,
            lacks=lacks,
        )

    def _largest_domain(self) -> tuple[str, ...]:
        """Where no domain has room now: the one that would hold most if it were empty."""
        request = self._wanted.request
        by_slots = self._whole is None and request.strategy != STRICT_SPREAD
        shape = self._whole or self._most_wanted()
        table = self._state.totals.pool(shape.selector).table(request.packed_labels)
        value, _score = table.fits_of(shape.amounts, by_slots=by_slots).best()
        return value

    def _most_wanted(self) -> Shape:
        grouped = grouped_positions(self._wanted.request, self._wanted.positions)
        return max(grouped, key=lambda one: len(grouped[one]))

    def _largest_need(self) -> str:
        if self._whole is not None:
            return text(self._whole.amounts.vector)
        return text(self._most_wanted().amounts.vector)

    def blocked_by(self) -> list[bytes]:
        """Groups that hold room on nodes that are only too full, oldest first."""
        orders: dict[bytes, int] = {}
        for counts in self._counts.values():
            for token in (INSUFFICIENT_FREE, "device_fragmentation", "queued_behind"):
                for node in counts.rejected.get(token, ()):
                    self._note_holders(node, orders)
        orders.pop(self._group_id, None)
        return sorted(orders, key=lambda group_id: orders[group_id])[:BLOCKED_BY_MAX]

    def _note_holders(self, node: NodeRoom, orders: dict[bytes, int]) -> None:
        groups = self._state.groups
        holders = [node.claimed_by] if node.claimed_by else [key[0] for key in node.holdings]
        for group_id in holders:
            group = groups.get(group_id)
            if group is not None:
                orders[group_id] = group.order

    def sentence(self, token: str, short_text: str) -> str:
        """One sentence for people: the token, then the bundle with the fewest fitting nodes."""
        if not self._wanted.positions:
            return f"{token}: {short_text}"
        worst: tuple[int, Shape] | None = None
        for shape, counts in self._counts.items():
            if worst is None or len(counts.fitting) < worst[0]:
                worst = (len(counts.fitting), shape)
        if worst is None:
            return f"{token}: {short_text}"
        rejected = self._counts[worst[1]].rejected
        listed = ", ".join(f"{name} {len(nodes)}" for name, nodes in sorted(rejected.items()))
        judged = self._whole or worst[1]
        return (
            f"{token}: {short_text}; of {len(self._nodes)} nodes alive {worst[0]} fit "
            f"{text(judged.amounts.vector)}"
            + (f" ({listed})" if listed else "")
            + self._places_hint(worst[1])
        )

    def _places_hint(self, shape: Shape) -> str:
        """What the counts of single nodes do not show: too few places for a bundle each."""
        request = self._wanted.request
        if isinstance(self._result, Plan) or self._whole is not None:
            return ""
        count = len(grouped_positions(request, self._wanted.positions)[shape])
        fitting = self._counts[shape].fitting
        if request.strategy == STRICT_SPREAD and 0 < len(fitting) < count:
            return f"; {count} bundles need a node each"
        for level in request.loose_levels:
            domains = {node.labels[level.label] for node in fitting}
            if level.strategy == STRICT_SPREAD and 0 < len(domains) < count:
                return f"; {count} bundles need a {level.label} each, {len(domains)} have room"
        return ""
