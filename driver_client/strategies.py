"""Scheduling strategies and groups as users name them, and the lease requests they become."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from cluster_api.v1 import agent_pb2 as pb
from cluster_common import ids, labels, resources
from driver_client import process
from driver_client.core import selectors
from driver_client.core.options import WrongArgumentError
from driver_client.core.scheduling_key import SchedulingKey
from driver_client.placement_group import PlacementGroup
from driver_client.shell import running


class PlacementGroupSchedulingStrategy(msgspec.Struct):
    """Runs the task or actor in a placement group.

    Attributes:
        placement_group: the group; None escapes a captured one.
        placement_group_bundle_index: which bundle; -1 any.
        placement_group_capture_child_tasks: whether what it submits goes there too.
    """

    placement_group: PlacementGroup | None
    placement_group_bundle_index: int = -1
    placement_group_capture_child_tasks: bool | None = None

    def __post_init__(self) -> None:
        _check_group(self.placement_group)


class NodeAffinitySchedulingStrategy(msgspec.Struct):
    """Runs on one node (hex id). Hard: fails when the node is gone; soft: anywhere then."""

    node_id: str
    soft: bool
    _spill_on_unavailable: bool = False
    """Accepted for Ray's programs: soft means it already."""
    _fail_on_unavailable: bool = False
    """Accepted for Ray's programs: hard work waits for room on its node."""

    def __post_init__(self) -> None:
        node_bytes(self.node_id)
        if self._spill_on_unavailable and not self.soft:
            raise ValueError("_spill_on_unavailable=True needs soft=True")
        if self._fail_on_unavailable and self.soft:
            raise ValueError("_fail_on_unavailable=True needs soft=False")


class NodeLabelSchedulingStrategy(msgspec.Struct):
    """Runs where `hard` labels match; where `soft` match too, if there is such a node.

    Values are selector texts, `v`, `!v`, `in(a,b)`, `!in(a,b)`, `*`, `!*`, or In, NotIn, Exists,
    DoesNotExist that make them.
    """

    hard: dict[str, str]
    soft: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if not self.hard and not self.soft:
            raise ValueError(
                "NodeLabelSchedulingStrategy needs hard or soft labels: it has neither"
            )
        for which, terms in (("hard", self.hard), ("soft", self.soft or {})):
            try:
                selectors.checked(which, terms)
            except (TypeError, ValueError) as error:
                raise WrongArgumentError(f"NodeLabelSchedulingStrategy {error}") from None


DEFAULT_SCHEDULING_STRATEGY = "DEFAULT"
SPREAD_SCHEDULING_STRATEGY = "SPREAD"
_NAMED = (DEFAULT_SCHEDULING_STRATEGY, SPREAD_SCHEDULING_STRATEGY)
_STRATEGIES = (
    str,
    PlacementGroupSchedulingStrategy,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
)
_HEXADECIMAL = re.compile("(?:[0-9a-fA-F]{2})+")
_ALLOWED = "None, 'DEFAULT', 'SPREAD', or a " + ", ".join(s.__name__ for s in _STRATEGIES[1:])


def node_bytes(node_id: object) -> bytes:
    """The bytes of a node id in hex; one of another length is that of a node which is not here.

    Raises:
        WrongArgumentError: not a text, not hexadecimal, or empty.
    """
    try:
        value = bytes.fromhex(node_id) if isinstance(node_id, str) else b""
    except ValueError:
        value = b""
    if not value:
        raise WrongArgumentError(
            f"the node id {node_id!r} is not hexadecimal: shoal.nodes() lists them"
        )
    if len(value) != ids.NODE_ID_BYTES:
        # Programs name nodes that cannot exist, with the digits of Ray's ids.
        return hashlib.blake2b(value, digest_size=ids.NODE_ID_BYTES).digest()
    return value


def _check_group(group: Any) -> None:
    if group is not None and not isinstance(group, PlacementGroup):
        raise WrongArgumentError(f"placement_group must be a PlacementGroup or None, not {group!r}")


def check_placement(options: Mapping[str, Any]) -> None:
    """Refuses what no strategy or group is, where the option is written.

    Raises:
        ValueError, TypeError: names the option, what was wrong and what is allowed.
    """
    strategy = options.get("scheduling_strategy")
    if strategy is not None and not isinstance(strategy, _STRATEGIES):
        raise TypeError(f"scheduling_strategy must be {_ALLOWED}, not {strategy!r}")
    if isinstance(strategy, str) and strategy not in _NAMED:
        raise ValueError(f"scheduling_strategy must be {_ALLOWED}, not {strategy!r}")
    group = options.get("placement_group")
    if group is not None and group != "default":
        _check_group(group)
        if strategy is not None:
            raise ValueError(
                "placement_group and scheduling_strategy exclude each other: use "
                "scheduling_strategy=PlacementGroupSchedulingStrategy(…)"
            )


def scheduling_key(options: Mapping[str, Any], *, for_actor: bool, name: str) -> SchedulingKey:
    """The lease request that a function's or class's options stand for.

    Raises:
        ValueError, TypeError: the strategy, the group's index, or a request larger than any bundle.
    """
    request = pb.LeaseRequest(name=name, bundle_index=-1)
    held, needed = _amounts(options, for_actor=for_actor)
    request.resources.amounts.update(held)
    request.placement_resources.amounts.update(needed)
    request.strategy = pb.SCHEDULING_STRATEGY_DEFAULT
    selector = dict(options.get("label_selector") or {})
    if options.get("accelerator_type"):
        selector.setdefault("shoal.io/accelerator-type", options["accelerator_type"])
    request.selector.terms.update(selector)
    for item in options.get("fallback_strategy") or ():
        request.fallback.add().terms.update(item["label_selector"])
    runtime = process.get_runtime()
    environment = options.get("runtime_env")
    if environment:
        request.runtime_env_json = runtime.environments.text_for(environment)
    else:
        request.runtime_env_json = runtime.facts.runtime_env_json
    request.job_id = runtime.facts.job_id
    request.namespace = runtime.facts.namespace
    _apply_strategy(request, options)
    return SchedulingKey(request)


def _amounts(
    options: Mapping[str, Any], *, for_actor: bool
) -> tuple[resources.Vector, resources.Vector]:
    """(held, needed to place).

    Actors without any amount: 1 CPU to place, 0 to hold (RAY_FACTS A5.2).
    """
    named: dict[str, float] = dict(options.get("resources") or {})
    cpus = options.get("num_cpus")
    for option, resource in (("num_gpus", "GPU"), ("memory", "memory")):
        if options.get(option):
            named[resource] = options[option]
    if options.get("object_store_memory"):
        named["object_store_memory"] = options["object_store_memory"]
    if for_actor and cpus is None and not named:
        return {}, {"CPU": resources.RESOURCE_UNIT}
    if cpus is None:
        cpus = 0 if for_actor else 1
    if cpus:
        named["CPU"] = cpus
    vector = resources.vector(named)
    return vector, vector


def _apply_strategy(request: pb.LeaseRequest, options: Mapping[str, Any]) -> None:
    strategy = options.get("scheduling_strategy")
    group = options.get("placement_group")
    if isinstance(group, PlacementGroup):
        strategy = PlacementGroupSchedulingStrategy(
            group,
            options.get("placement_group_bundle_index", -1),
            options.get("placement_group_capture_child_tasks"),
        )
    if strategy is None:
        captured, goes_there = running.group_now()
        if goes_there and not _escapes(options):
            request.placement_group_id = captured
            request.strategy = pb.SCHEDULING_STRATEGY_PLACEMENT_GROUP
        else:
            _refuse_index(options.get("placement_group_bundle_index", -1))
    elif isinstance(strategy, PlacementGroupSchedulingStrategy):
        index = strategy.placement_group_bundle_index
        if strategy.placement_group is None or strategy.placement_group.is_empty:
            _refuse_index(index)
        else:
            _apply_group(request, strategy.placement_group, index)
    elif isinstance(strategy, NodeAffinitySchedulingStrategy):
        node = node_bytes(strategy.node_id)
        request.strategy = pb.SCHEDULING_STRATEGY_NODE_AFFINITY
        request.affinity_node_id = node
        request.affinity_soft = strategy.soft
    elif strategy == SPREAD_SCHEDULING_STRATEGY:
        request.strategy = pb.SCHEDULING_STRATEGY_SPREAD
    elif isinstance(strategy, NodeLabelSchedulingStrategy):
        _apply_labels(request, strategy)
    elif strategy != DEFAULT_SCHEDULING_STRATEGY:
        raise ValueError(f"scheduling_strategy must be {_ALLOWED}, not {strategy!r}")
    if request.strategy == pb.SCHEDULING_STRATEGY_DEFAULT:
        _bind_by_label(request)


def _refuse_index(index: int) -> None:
    if index != -1:
        raise ValueError(
            f"placement_group_bundle_index is {index!r} but there is no placement group: it must "
            "be -1 then"
        )


def _bind_by_label(request: pb.LeaseRequest) -> None:
    """A selector that only names one node is a hard affinity to it, as in Ray.

    Work for a node that is gone fails then, where a selector would wait for such a node.
    """
    if len(request.selector.terms) != 1 or request.fallback:
        return
    (term,) = labels.parse_selector(request.selector.terms)
    if term.key != labels.NODE_ID_LABEL or term.negated or term.is_existence:
        return
    if len(term.values) == 1 and _HEXADECIMAL.fullmatch(term.values[0]):
        request.selector.terms.clear()
        request.strategy = pb.SCHEDULING_STRATEGY_NODE_AFFINITY
        request.affinity_node_id = node_bytes(term.values[0])


def _apply_labels(request: pb.LeaseRequest, strategy: NodeLabelSchedulingStrategy) -> None:
    hard, soft = strategy.hard, strategy.soft
    labels.parse_selector(hard)
    labels.parse_selector(soft or {})
    if soft:
        # Soft terms first, then without them.
        request.selector.terms.update({**hard, **soft})
        request.fallback.add().terms.update(hard)
    else:
        request.selector.terms.update(hard)


def _apply_group(request: pb.LeaseRequest, group: PlacementGroup, index: int) -> None:
    bundles = group.bundle_specs
    count = len(bundles)
    if isinstance(index, bool) or not isinstance(index, int) or not -1 <= index < max(1, count):
        raise ValueError(
            f"placement_group_bundle_index {index!r} is not in -1 .. {count - 1}: "
            f"the group has {count} bundle(s)"
        )
    needed = dict(request.placement_resources.amounts)
    candidates = bundles if index < 0 else [bundles[index]]
    vectors = [resources.vector(bundle) for bundle in candidates]
    if needed and not any(resources.fits(needed, vector) for vector in vectors):
        raise ValueError(_too_large(request, needed, vectors, index))
    request.placement_group_id = group.id_bytes
    request.bundle_index = index
    request.strategy = pb.SCHEDULING_STRATEGY_PLACEMENT_GROUP


def _too_large(
    request: pb.LeaseRequest,
    needed: resources.Vector,
    vectors: list[resources.Vector],
    index: int,
) -> str:
    largest = max(vectors, key=lambda vector: sum(vector.values()))
    where = f"bundle {index}" if index >= 0 else "any bundle of the group"
    hint = ""
    if not request.resources.amounts and needed == {"CPU": resources.RESOURCE_UNIT}:
        hint = " (an actor without resources needs 1 CPU to be placed: give num_cpus=0 or a shape)"
    return (
        f"{request.name}: {resources.text(needed)} does not fit into {where}; "
        f"the largest has {resources.text(largest)}{hint}"
    )


def captures_children(options: Mapping[str, Any]) -> bool:
    """Whether what the task or actor submits goes into its group too."""
    strategy = options.get("scheduling_strategy")
    if isinstance(strategy, PlacementGroupSchedulingStrategy):
        return bool(strategy.placement_group_capture_child_tasks)
    if options.get("placement_group_capture_child_tasks"):
        return True
    return running.group_now()[1]


def _escapes(options: Mapping[str, Any]) -> bool:
    """Whether the options name no group on purpose: None is not the same as leaving it out."""
    return options.get("placement_group", "default") is None
