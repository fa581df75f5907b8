"""Scheduling strategies and groups as users name them, and the lease requests they become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cluster_api.v1 import agent_pb2 as pb
from cluster_common import ids, labels, resources
from driver_client import process
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


class NodeAffinitySchedulingStrategy(msgspec.Struct):
    """Runs on one node (hex id). Hard: fails when the node is gone; soft: anywhere then."""

    node_id: str
    soft: bool = False
    _spill_on_unavailable: bool = False
    """Accepted for Ray's programs: soft means it already."""
    _fail_on_unavailable: bool = False
    """Accepted for Ray's programs: hard work waits for room on its node."""


class NodeLabelSchedulingStrategy(msgspec.Struct):
    """Runs where `hard` labels match; where `soft` match too, if there is such a node.

    Values are selector texts, `v`, `!v`, `in(a,b)`, `!in(a,b)`, `*`, `!*`, or In, NotIn, Exists,
    DoesNotExist that make them.
    """

    hard: dict[str, str]
    soft: dict[str, str] | None = None


DEFAULT_SCHEDULING_STRATEGY = "DEFAULT"
SPREAD_SCHEDULING_STRATEGY = "SPREAD"


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
        captured = running.current.get()
        if captured is not None and captured.capture_child_tasks and captured.placement_group_id:
            request.placement_group_id = captured.placement_group_id
            request.strategy = pb.SCHEDULING_STRATEGY_PLACEMENT_GROUP
    elif isinstance(strategy, PlacementGroupSchedulingStrategy):
        if strategy.placement_group is not None:
            _apply_group(request, strategy.placement_group, strategy.placement_group_bundle_index)
    elif isinstance(strategy, NodeAffinitySchedulingStrategy):
        node = ids.parse_hex(strategy.node_id, ids.NODE_ID_BYTES, "node id")
        request.strategy = pb.SCHEDULING_STRATEGY_NODE_AFFINITY
        request.affinity_node_id = node
        request.affinity_soft = strategy.soft
    elif strategy == SPREAD_SCHEDULING_STRATEGY:
        request.strategy = pb.SCHEDULING_STRATEGY_SPREAD
    elif isinstance(strategy, NodeLabelSchedulingStrategy):
        _apply_labels(request, strategy)
    elif strategy != DEFAULT_SCHEDULING_STRATEGY:
        raise ValueError(
            f"scheduling_strategy {strategy!r} is not one of None, 'DEFAULT', 'SPREAD', "
            "PlacementGroupSchedulingStrategy, NodeAffinitySchedulingStrategy, "
            "NodeLabelSchedulingStrategy"
        )


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
    captured = running.current.get()
    return captured is not None and captured.capture_child_tasks
