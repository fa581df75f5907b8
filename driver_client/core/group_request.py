"""Checks a placement-group request before anything is sent (FIELD_REPORTS O-08, CONTRACT)."""

from __future__ import annotations

from typing import Any

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_common import ids, labels, limits, resources
from driver_client.core import selectors as selector_rules
from driver_client.core.shapes import is_dict, is_sequence

STRATEGIES = {
    "PACK": pg.PLACEMENT_STRATEGY_PACK,
    "SPREAD": pg.PLACEMENT_STRATEGY_SPREAD,
    "STRICT_PACK": pg.PLACEMENT_STRATEGY_STRICT_PACK,
    "STRICT_SPREAD": pg.PLACEMENT_STRATEGY_STRICT_SPREAD,
}
ON_LOSS = {
    "replace": pg.ON_LOSS_REPLACE,
    "restart": pg.ON_LOSS_RESTART,
    "wait": pg.ON_LOSS_WAIT,
}
NODE_LEVEL_LABELS = ("node", *labels.NODE_ID_LABELS)
BUNDLES_MAX = 100_000


def checked_spec(
    bundles: Any,
    strategy: str | None,
    name: str | None,
    lifetime: str | None,
    *,
    bundle_label_selector: Any,
    topology_strategy: Any,
    on_loss: str,
    soft_target_node_id: str | None,
) -> pg.PlacementGroupSpec:
    """The request as a message, without ids.

    Raises:
        ValueError: names what was wrong and what is allowed.
    """
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name must be a text, not {name!r}")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name must be a text, not {name!r}")
    spec = pg.PlacementGroupSpec(name=name or "", detached=lifetime == "detached")
    if lifetime not in (None, "detached"):
        raise ValueError(f"lifetime must be None or 'detached', not {lifetime!r}")
    if len((name or "").encode()) > limits.NAME_BYTES_MAX:
        raise ValueError(f"the name has more than {limits.NAME_BYTES_MAX} bytes")
    if not isinstance(on_loss, str) or on_loss not in ON_LOSS:
        raise ValueError(f"on_loss must be one of {sorted(ON_LOSS)}, not {on_loss!r}")
    spec.on_loss = ON_LOSS[on_loss]
    _add_bundles(spec, bundles)
    _add_selectors(spec, bundle_label_selector)
    _add_topology(spec, strategy, topology_strategy)
    _check_contradiction(spec)
    if soft_target_node_id:
        if spec.strategy != pg.PLACEMENT_STRATEGY_STRICT_PACK:
            raise ValueError("_soft_target_node_id goes with strategy STRICT_PACK only")
        spec.soft_target_node_id = ids.parse_hex(
            soft_target_node_id, ids.NODE_ID_BYTES, "_soft_target_node_id"
        )
    return spec


def _add_bundles(spec: pg.PlacementGroupSpec, bundles: Any) -> None:
    if not is_sequence(bundles) or not bundles:
        raise ValueError(f"bundles must be a non-empty list of resource dicts, not {bundles!r}")
    if len(bundles) > BUNDLES_MAX:
        raise ValueError(f"{len(bundles)} bundles are more than {BUNDLES_MAX}")
    for index, bundle in enumerate(bundles):
        if not is_dict(bundle):
            raise ValueError(f"bundle {index} must be a dict of resource to amount, not {bundle!r}")
        try:
            vector = resources.vector(bundle)
        except (TypeError, ValueError) as error:
            raise ValueError(f"bundle {index}: {error}") from None
        if not vector:
            raise ValueError(f"bundle {index} is empty or all zero: {bundle!r}")
        spec.bundles.add().resources.amounts.update(vector)


def _add_selectors(spec: pg.PlacementGroupSpec, selectors: Any) -> None:
    if selectors is None:
        return
    if not is_sequence(selectors) or len(selectors) not in (1, len(spec.bundles)):
        raise ValueError(
            f"bundle_label_selector must be a list of {len(spec.bundles)} dicts (one a bundle) "
            f"or of one, not {selectors!r}"
        )
    spread = list(selectors) * (len(spec.bundles) if len(selectors) == 1 else 1)
    for index, (bundle, selector) in enumerate(zip(spec.bundles, spread, strict=True)):
        try:
            terms = selector_rules.checked(f"bundle_label_selector[{index}]", selector)
        except TypeError as error:
            raise ValueError(str(error)) from None
        bundle.selector.terms.update(terms)


def _strategy(value: Any, what: str) -> pg.PlacementStrategy.ValueType:
    if not isinstance(value, str) or value not in STRATEGIES:
        raise ValueError(f"{what} must be one of {sorted(STRATEGIES)}, not {value!r}")
    return STRATEGIES[value]


def _add_topology(spec: pg.PlacementGroupSpec, strategy: Any, topology: Any) -> None:
    if topology is None:
        spec.strategy = _strategy(strategy or "PACK", "strategy")
        return
    if not is_dict(topology) or not topology:
        raise ValueError(f"topology_strategy must be a dict of label to strategy, not {topology!r}")
    if strategy is not None and set(topology).intersection(NODE_LEVEL_LABELS):
        raise ValueError(
            "the node level is given twice: by strategy and by the key 'node' of topology_strategy"
        )
    spec.strategy = _strategy(strategy or "PACK", "strategy")
    for label, value in topology.items():
        chosen = _strategy(value, f"topology_strategy[{label!r}]")
        if label in NODE_LEVEL_LABELS:
            spec.strategy = chosen
            continue
        if not isinstance(label, str):
            raise ValueError(  # noqa: TRY004 - CONTRACT: a wrong request is a ValueError
                f"topology_strategy: label {label!r} must be a text"
            )
        labels.check_key(label)
        spec.topology.add(label=label, strategy=chosen)


def _check_contradiction(spec: pg.PlacementGroupSpec) -> None:
    if spec.strategy != pg.PLACEMENT_STRATEGY_STRICT_PACK:
        return
    selectors = [labels.parse_selector(bundle.selector.terms) for bundle in spec.bundles]
    label = labels.contradiction(selectors)
    if label is not None:
        raise ValueError(
            f"STRICT_PACK puts all bundles on one node, but their selectors for label {label!r} "
            "exclude each other"
        )
