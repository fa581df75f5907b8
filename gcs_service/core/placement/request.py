"""What a group asks for, parsed once from its spec: shapes, strategy, domain levels."""

from __future__ import annotations

from typing import NamedTuple

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_common.labels import NODE_ID_LABELS, Term, contradiction, parse_selector
from gcs_service.core.placement.amounts import Amounts, AmountsTable
from gcs_service.core.placement.limits import GROUP_BUNDLES_MAX, NAME_BYTES_MAX

STRICT_PACK = pg.PLACEMENT_STRATEGY_STRICT_PACK
STRICT_SPREAD = pg.PLACEMENT_STRATEGY_STRICT_SPREAD
PACK = pg.PLACEMENT_STRATEGY_PACK
SPREAD = pg.PLACEMENT_STRATEGY_SPREAD
STRATEGY_NAMES = {
    PACK: "PACK",
    SPREAD: "SPREAD",
    STRICT_PACK: "STRICT_PACK",
    STRICT_SPREAD: "STRICT_SPREAD",
}

Selector = tuple[Term, ...]


class Shape(NamedTuple):
    """One bundle's need: an interned vector and the labels its node must have."""

    amounts: Amounts
    selector: Selector


class Level(NamedTuple):
    """One domain level above the node, outermost first."""

    label: str
    strategy: int


class Request(NamedTuple):
    """A parsed spec. Equal requests fail and succeed together (see `waiting`)."""

    shapes: tuple[Shape, ...]
    strategy: int
    levels: tuple[Level, ...]
    soft_target: bytes

    @property
    def packed_labels(self) -> tuple[str, ...]:
        """The outermost levels that must be one domain each.

        Nested values form one composite domain.
        """
        labels: list[str] = []
        for level in self.levels:
            if level.strategy != STRICT_PACK:
                break
            labels.append(level.label)
        return tuple(labels)

    @property
    def identity(self) -> tuple[str, ...]:
        """The names of nodes that its bundles ask for."""
        names = {name: None for shape in self.shapes for name in shape.amounts.identity}
        return tuple(names)

    @property
    def loose_levels(self) -> tuple[Level, ...]:
        """The levels below the packed ones."""
        return self.levels[len(self.packed_labels) :]


def parse_request(spec: pg.PlacementGroupSpec, table: AmountsTable) -> Request:
    """The request of a spec.

    Raises:
        ValueError: it contradicts itself; the text names what and what is allowed.
    """
    _check_names(spec)
    if not spec.bundles:
        raise ValueError("a placement group needs at least one bundle")
    if len(spec.bundles) > GROUP_BUNDLES_MAX:
        raise ValueError(f"{len(spec.bundles)} bundles are more than {GROUP_BUNDLES_MAX}")
    strategy = spec.strategy or PACK
    if strategy not in STRATEGY_NAMES:
        raise ValueError(f"strategy {spec.strategy} is not one of {_strategies()}")
    shapes = tuple(_shape(index, bundle, table) for index, bundle in enumerate(spec.bundles))
    levels = _levels(spec, strategy)
    if strategy == STRICT_PACK:
        excluded = contradiction([shape.selector for shape in shapes])
        if excluded is not None:
            raise ValueError(
                f"STRICT_PACK puts all bundles on one node, but their selectors for label "
                f"{excluded!r} exclude each other"
            )
    return Request(shapes, strategy, levels, spec.soft_target_node_id)


def _check_names(spec: pg.PlacementGroupSpec) -> None:
    for what, value in (("name", spec.name), ("namespace", spec.namespace)):
        if len(value.encode()) > NAME_BYTES_MAX:
            raise ValueError(f"placement group {what} is longer than {NAME_BYTES_MAX} bytes")


def _shape(index: int, bundle: pg.BundleSpec, table: AmountsTable) -> Shape:
    """Bundles of a group are alike as a rule.

    The bytes of one lead to its shape without parsing.
    """
    encoded = bundle.SerializeToString()
    found = table.parsed.get(encoded)
    if found is None:
        found = _parse_shape(index, bundle, table)
        table.remember(encoded, found)
    assert isinstance(found, Shape)
    return found


def _parse_shape(index: int, bundle: pg.BundleSpec, table: AmountsTable) -> Shape:
    vector = dict(bundle.resources.amounts)
    amounts = table.intern(vector)
    if not amounts.items:
        raise ValueError(f"bundle {index} asks for nothing")
    for name, amount in amounts.items:
        if amount < 0:
            raise ValueError(f"bundle {index}: resource {name!r} is below zero")
    if not bundle.selector.terms:
        return Shape(amounts, ())
    try:
        return Shape(amounts, parse_selector(bundle.selector.terms))
    except ValueError as error:
        raise ValueError(f"bundle {index}: {error}") from None


def _levels(spec: pg.PlacementGroupSpec, strategy: int) -> tuple[Level, ...]:
    levels: list[Level] = []
    for level in spec.topology:
        if not level.label or level.label in NODE_ID_LABELS:
            raise ValueError(f"topology level {level.label!r} is not a label above the node")
        if level.strategy not in STRATEGY_NAMES:
            raise ValueError(f"topology level {level.label!r}: strategy must be {_strategies()}")
        if any(level.label == other.label for other in levels):
            raise ValueError(f"topology level {level.label!r} is named twice")
        levels.append(Level(level.label, level.strategy))
    inner_packed = strategy == STRICT_PACK
    for level in reversed(levels):
        if level.strategy == STRICT_SPREAD and inner_packed and len(spec.bundles) > 1:
            raise ValueError(
                f"topology level {level.label!r} is STRICT_SPREAD, but a level inside it packs "
                "all bundles together"
            )
        inner_packed = inner_packed and level.strategy == STRICT_PACK
    return tuple(levels)


def _strategies() -> str:
    return ", ".join(STRATEGY_NAMES.values())


def sum_shape(shapes: tuple[Shape, ...], table: AmountsTable) -> Shape:
    """All bundles as one: what STRICT_PACK needs from one node."""
    if len(shapes) == 1:
        return shapes[0]
    amounts = table.sum([shape.amounts for shape in shapes])
    terms = {term: None for shape in shapes for term in shape.selector}
    return Shape(
        amounts, tuple(sorted(terms, key=lambda term: (term.key, term.negated, term.values)))
    )
