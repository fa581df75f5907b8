"""Placement groups: make, wait, explain, remove (CONTRACT: Placement groups)."""

from __future__ import annotations

from typing import Any

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_common import resources
from driver_client import cluster_view, process
from driver_client import placement_group as groups
from driver_client.group_change import GroupChange, state_name
from driver_client.placement_group import PlacementGroup
from driver_client.shell import running
from shoal.util.explanation import Explanation, from_message

__all__ = [
    "Explanation",
    "GroupChange",
    "PlacementGroup",
    "explain",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
    "would_fit",
]

_ON_LOSS = {
    pg.ON_LOSS_REPLACE: "replace",
    pg.ON_LOSS_RESTART: "restart",
    pg.ON_LOSS_WAIT: "wait",
}


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str | None = None,
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
    *,
    on_loss: str = "replace",
) -> PlacementGroup:
    """Asks for a gang of bundles: all are reserved or none is. Returns at once.

    Args:
        bundles: resources of each bundle.
        strategy: PACK (default), SPREAD, STRICT_PACK or STRICT_SPREAD over nodes.
        name: for `get_placement_group`, unique in the namespace.
        lifetime: "detached" outlives the job.
        bundle_label_selector: one selector a bundle, or one for all.
        topology_strategy: label -> strategy, such as {"rack": "STRICT_PACK"}; the key "node" is the
            node level.
        on_loss: after a node's death: "replace" the lost bundles, "restart" the whole gang, "wait".

    Raises:
        ValueError: the request contradicts itself. One that no node could satisfy now does not
            raise: it is pending with reason `infeasible`, since a node may join.
    """
    return groups.create(
        bundles,
        strategy,
        name,
        lifetime,
        bundle_label_selector=bundle_label_selector,
        topology_strategy=topology_strategy,
        on_loss=on_loss,
        soft_target_node_id=_soft_target_node_id,
    )


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Removes a group: its tasks and actors end, its resources are free again."""
    groups.remove(placement_group)


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """The group of this name in the job's namespace.

    Raises:
        ValueError: there is none; empty name.
    """
    if not placement_group_name:
        raise ValueError("get_placement_group takes a non-empty name")
    namespace = process.get_runtime().facts.namespace
    request = pg.GetGroupRequest(name=placement_group_name, namespace=namespace)
    answer = cluster_view.gcs_call(lambda link: link.groups.GetGroup, request)
    if not answer.found:
        raise ValueError(
            f"there is no placement group named {placement_group_name!r} in namespace {namespace!r}"
        )
    return groups.from_record(answer.group)


def get_current_placement_group() -> PlacementGroup | None:
    """The group this task or actor runs in."""
    task = running.current.get()
    group_id = (task.placement_group_id if task else b"") or _actor_group()
    if not group_id:
        return None
    request = pg.GetGroupRequest(placement_group_id=group_id)
    answer = cluster_view.gcs_call(lambda link: link.groups.GetGroup, request)
    return groups.from_record(answer.group) if answer.found else None


def _actor_group() -> bytes:
    runtime = process.runtime_if_any()
    return runtime.facts.placement_group_id if runtime is not None else b""


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """What the GCS knows of one group ({} if unknown), or of all by id."""
    if placement_group is not None:
        request = pg.GetGroupRequest(placement_group_id=placement_group.id_bytes)
        answer = cluster_view.gcs_call(lambda link: link.groups.GetGroup, request)
        return _row(answer.group) if answer.found else {}
    everything = cluster_view.gcs_call(
        lambda link: link.groups.GetAllGroups, pg.GetAllGroupsRequest()
    )
    return {record.spec.placement_group_id.hex(): _row(record) for record in everything.groups}


def _row(record: pg.PlacementGroupRecord) -> dict[str, Any]:
    spec = record.spec
    nodes = list(record.bundle_nodes)
    end_to_end = record.ready_time_ms - record.created_time_ms if record.ready_time_ms else 0
    return {
        "placement_group_id": spec.placement_group_id.hex(),
        "name": spec.name,
        "bundles": {i: resources.floats(b.resources.amounts) for i, b in enumerate(spec.bundles)},
        "bundles_to_node_id": {i: node.hex() for i, node in enumerate(nodes)},
        "strategy": pg.PlacementStrategy.Name(spec.strategy).removeprefix("PLACEMENT_STRATEGY_"),
        "state": state_name(record.state),
        "stats": {
            "end_to_end_creation_latency_ms": end_to_end,
            "scheduling_latency_ms": record.scheduling_latency_ms,
            "scheduling_attempt": record.scheduling_attempts,
            "highest_retry_delay_ms": record.highest_retry_delay_ms,
            "scheduling_state": record.reason or "FINISHED",
        },
        "reason": record.reason,
        "message": record.message,
        "on_loss": _ON_LOSS.get(spec.on_loss, "replace"),
        "topology_assignment": dict(record.topology_assignment),
        "overtaken": record.overtaken,
        "removal_attempts": record.removal_attempts,
        "is_detached": spec.detached,
    }


def explain(placement_group: PlacementGroup) -> Explanation:
    """Why a group waits: per bundle the number of nodes refused and by what; the best domain.

    Raises:
        ValueError: the GCS does not know the group.
    """
    request = pg.ExplainRequest(placement_group_id=placement_group.id_bytes)
    answer = cluster_view.gcs_call(lambda link: link.groups.Explain, request)
    if not answer.found:
        raise ValueError(f"placement group {placement_group.id_bytes.hex()} is not known")
    return from_message(answer)


def would_fit(
    bundles: list[dict[str, float]],
    strategy: str | None = None,
    *,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> Explanation:
    """Whether such a group would be placed now; nothing is reserved."""
    from driver_client.core import group_request  # late: only dry runs need it

    spec = group_request.checked_spec(
        bundles,
        strategy,
        "",
        None,
        bundle_label_selector=bundle_label_selector,
        topology_strategy=topology_strategy,
        on_loss="replace",
        soft_target_node_id=None,
    )
    return from_message(
        cluster_view.gcs_call(lambda link: link.groups.WouldFit, pg.WouldFitRequest(spec=spec))
    )
