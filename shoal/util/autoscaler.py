"""What the cluster wants beyond what it has, and a floor for its size (CONTRACT: Demand).

Demand is seen at once by everybody here; `shoal autoscaler` acts on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import types_pb2 as t
from cluster_common import labels, resources
from driver_client import cluster_view


@dataclass(frozen=True, slots=True)
class NodeDemandState:
    """One node: `status` RUNNING, IDLE, DRAINING or DEAD; amounts in user units."""

    node_id: str
    status: str
    node_type: str
    instance_id: str
    total: dict[str, float]
    available: dict[str, float]
    labels: dict[str, str]
    idle_s: float
    is_head: bool

    @property
    def used(self) -> dict[str, float]:
        """Total minus available, without zeros."""
        parts = {
            name: amount - self.available.get(name, 0.0) for name, amount in self.total.items()
        }
        return {name: amount for name, amount in parts.items() if amount}


@dataclass(frozen=True, slots=True)
class PendingShape:
    """`count` equal requests that wait. `infeasible`: no present node could ever hold one."""

    resources: dict[str, float]
    selector: dict[str, str]
    count: int
    infeasible: bool


@dataclass(frozen=True, slots=True)
class PendingGang:
    """A placement group that waits: the bundles that have no place, wanted all or none."""

    placement_group_id: str
    name: str
    strategy: str
    bundles: list[dict[str, float]]
    infeasible: bool


@dataclass(frozen=True, slots=True)
class ClusterResourceState:
    """One moment under one `version`: what is pending here is not placed here.

    `constraints` are the floor that was requested, no demand: nothing of it waits.
    """

    version: int
    session_name: str
    nodes: list[NodeDemandState]
    pending: list[PendingShape]
    infeasible: list[PendingShape]
    gangs: list[PendingGang]
    constraints: list[PendingShape]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def cluster_resource_state() -> ClusterResourceState:
    """The demand of the cluster and what its nodes have, as of one moment."""
    request = auto.GetClusterResourceStateRequest()
    answer = cluster_view.gcs_call(lambda link: link.autoscaler.GetClusterResourceState, request)
    state = answer.cluster_resource_state
    shapes = [_shape(row) for row in state.pending_resource_requests]
    return ClusterResourceState(
        version=state.cluster_resource_state_version,
        session_name=state.cluster_session_name,
        nodes=[_node(node) for node in state.node_states],
        pending=[shape for shape in shapes if not shape.infeasible],
        infeasible=[shape for shape in shapes if shape.infeasible],
        gangs=[_gang(gang) for gang in state.pending_gang_resource_requests],
        constraints=[
            _shape(row)
            for constraint in state.cluster_resource_constraints
            for row in constraint.resource_requests
        ],
    )


def request_resources(
    num_cpus: int | None = None,
    bundles: Sequence[Mapping[str, float]] | None = None,
    bundle_label_selectors: Sequence[Mapping[str, str]] | None = None,
) -> None:
    """Asks that the cluster be at least so large, whatever runs on it.

    The request is a floor, not an addition; it is durable and replaces the one before. Without
    arguments there is no floor any more.

    Args:
        num_cpus: this many CPUs in all, as requests for one CPU each.
        bundles: amounts that must each fit on one node.
        bundle_label_selectors: labels of the node for each bundle, in the same order.

    Raises:
        ValueError, TypeError: a bad amount or label.
    """
    selectors = [dict(selector) for selector in bundle_label_selectors or ()]
    if selectors and len(selectors) != len(bundles or ()):
        raise ValueError(
            f"{len(selectors)} bundle_label_selectors for {len(bundles or ())} bundles:"
            " there must be one for each"
        )
    if num_cpus is not None and (isinstance(num_cpus, bool) or num_cpus < 0):
        raise ValueError(f"num_cpus is {num_cpus}, it must be at least 0")
    rows: list[auto.ResourceRequestByCount] = []
    if num_cpus:
        rows.append(_row({"CPU": 1}, {}, num_cpus))
    same: Counter[tuple[tuple[tuple[str, float], ...], tuple[tuple[str, str], ...]]] = Counter()
    for position, bundle in enumerate(bundles or ()):
        selector = selectors[position] if selectors else {}
        same[tuple(bundle.items()), tuple(selector.items())] += 1
    rows += [_row(dict(bundle), dict(terms), count) for (bundle, terms), count in same.items()]
    request = auto.RequestClusterResourceConstraintRequest(
        cluster_resource_constraint=auto.ClusterResourceConstraint(resource_requests=rows)
    )
    cluster_view.gcs_call(lambda link: link.autoscaler.RequestClusterResourceConstraint, request)


def _row(
    amounts: Mapping[str, float], selector: Mapping[str, str], count: int
) -> auto.ResourceRequestByCount:
    fixed = resources.vector(amounts)
    if not fixed:
        raise ValueError(f"bundle {dict(amounts)!r} asks for nothing")
    labels.parse_selector(selector)
    request = auto.ResourceRequest(
        resources_bundle=t.ResourceSet(amounts=fixed),
        label_selector=t.LabelSelector(terms=dict(selector)),
    )
    return auto.ResourceRequestByCount(request=request, count=count)


def _shape(row: auto.ResourceRequestByCount) -> PendingShape:
    return PendingShape(
        resources=resources.floats(row.request.resources_bundle.amounts),
        selector=dict(row.request.label_selector.terms),
        count=row.count,
        infeasible=row.infeasible,
    )


def _gang(gang: auto.GangResourceRequest) -> PendingGang:
    return PendingGang(
        placement_group_id=gang.placement_group_id.hex(),
        name=gang.details,
        strategy=gang.strategy,
        bundles=[resources.floats(row.resources_bundle.amounts) for row in gang.requests],
        infeasible=gang.infeasible,
    )


def _node(node: auto.ClusterNodeState) -> NodeDemandState:
    return NodeDemandState(
        node_id=node.node_id.hex(),
        status=auto.NodeStatus.Name(node.status).removeprefix("NODE_STATUS_"),
        node_type=node.ray_node_type_name,
        instance_id=node.instance_id,
        total=resources.floats(node.total_resources.amounts),
        available=resources.floats(node.available_resources.amounts),
        labels=dict(node.labels),
        idle_s=node.idle_duration_ms / 1_000,
        is_head=node.is_head,
    )
