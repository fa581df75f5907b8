"""From the GCS's snapshot and the provider's instances to the input of a decision."""

from __future__ import annotations

from collections.abc import Iterable

from autoscaler.core.config import AutoscalerConfig
from autoscaler.core.wants import Gang, Node, Shape, Wants
from autoscaler.shell.provider import Instance
from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_common import labels as label_rules
from cluster_common.identity_resources import is_identity


def read_wants(
    config: AutoscalerConfig, state: auto.ClusterResourceState, starting: Iterable[Instance]
) -> Wants:
    """`starting`: instances without a node yet; they count as empty nodes of their type."""
    nodes = [_node(node) for node in state.node_states if node.status != auto.NODE_STATUS_DEAD]
    for instance in starting:
        node_type = config.node_types.get(instance.node_type)
        if node_type is not None:
            total, labels = node_type.resources, node_type.labels
            nodes.append(Node(b"", instance.instance_id, node_type.name, total, total, labels))
    return Wants(
        nodes=tuple(nodes),
        shapes=tuple(
            _shape(row.request, row.count)
            for row in state.pending_resource_requests
            if not _bound_to_a_node(row.request)
        ),
        gangs=tuple(_gang(gang) for gang in state.pending_gang_resource_requests),
        floor=tuple(
            _shape(row.request, row.count)
            for constraint in state.cluster_resource_constraints
            for row in constraint.resource_requests
        ),
    )


def _bound_to_a_node(request: auto.ResourceRequest) -> bool:
    """It waits for one node that exists: another one would not help."""
    return any(map(is_identity, request.resources_bundle.amounts)) or any(
        label in request.label_selector.terms for label in label_rules.NODE_ID_LABELS
    )


def _shape(request: auto.ResourceRequest, count: int) -> Shape:
    return Shape(
        dict(request.resources_bundle.amounts),
        label_rules.parse_selector(request.label_selector.terms),
        count,
    )


def _gang(gang: auto.GangResourceRequest) -> Gang:
    apart = [
        constraint.anti_affinity.label_name
        for request in gang.requests
        for constraint in request.placement_constraints
    ]
    return Gang(
        gang_id=gang.placement_group_id,
        bundles=tuple(_shape(request, 1) for request in gang.requests),
        strategy=gang.strategy,
        apart=apart[0] if apart else "",
        packed_labels=tuple(gang.packed_labels),
        packed_values=dict(gang.packed_values),
    )


def _node(node: auto.ClusterNodeState) -> Node:
    idle = node.status == auto.NODE_STATUS_IDLE
    return Node(
        node_id=node.node_id,
        instance_id=node.instance_id,
        node_type=node.ray_node_type_name,
        total=dict(node.total_resources.amounts),
        available=dict(node.available_resources.amounts),
        labels=dict(node.labels),
        apart=frozenset(node.dynamic_labels),
        idle_ms=node.idle_duration_ms if idle else None,
        draining=node.status == auto.NODE_STATUS_DRAINING,
    )
