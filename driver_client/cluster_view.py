"""What the GCS says of the cluster, asked from user threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cluster_api.v1 import gcs_pb2 as gcs
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common import labels, resources
from driver_client import process
from driver_client.shell.gcs_link import GcsLink
from driver_client.shell.runtime import Runtime

T = TypeVar("T")


async def ask(
    runtime: Runtime, method: Callable[[GcsLink], Callable[..., Awaitable[T]]], request: Any
) -> T:
    """One unary call to the GCS; I/O thread."""
    link = runtime.gcs()
    return await link.call(method(link), request)


def gcs_call(method: Callable[[GcsLink], Callable[..., Awaitable[T]]], request: Any) -> T:
    """One unary call to the GCS from a user thread."""
    runtime = process.connected_runtime()
    return runtime.io.call(ask(runtime, method, request))


def node_records() -> list[t.NodeRecord]:
    """All nodes the GCS knows, dead ones included."""
    return list(gcs_call(lambda link: link.nodes.GetAllNodes, gcs.GetAllNodesRequest()).nodes)


def nodes() -> list[dict[str, Any]]:
    """All nodes as Ray lists them; resources are empty for dead ones."""
    return [_node_row(node) for node in node_records()]


def _node_row(node: t.NodeRecord) -> dict[str, Any]:
    host, _, port = node.address.rpartition(":")
    alive = node.state != t.NODE_STATE_DEAD
    return {
        "NodeID": node.node_id.hex(),
        "Alive": alive,
        "alive": alive,
        "NodeManagerAddress": host,
        "NodeManagerHostname": node.hostname,
        "NodeManagerPort": int(port or 0),
        "ObjectManagerPort": 0,
        "ObjectStoreSocketName": "",
        "RayletSocketName": "",
        "MetricsExportPort": 0,
        "MetricsAgentPort": 0,
        "DashboardAgentListenPort": 0,
        "RuntimeEnvAgentPort": 0,
        "NodeName": node.node_name,
        "DeathReason": int(node.death_cause),
        "DeathReasonMessage": node.death_message,
        "Resources": resources.floats(node.total.amounts) if alive else {},
        "Labels": labels.shown(node.labels),
        "Draining": node.state == t.NODE_STATE_DRAINING,
    }


def cluster_resources() -> dict[str, float]:
    """Sum of the totals of all nodes that are alive, placed groups' resources under their names."""
    parts = [node.total.amounts for node in node_records() if node.state != t.NODE_STATE_DEAD]
    return _sum([*parts, *(group_resources(group) for group in _groups())])


def _groups() -> list[pg.PlacementGroupRecord]:
    answer = gcs_call(lambda link: link.groups.GetAllGroups, pg.GetAllGroupsRequest())
    return list(answer.groups)


def group_resources(record: pg.PlacementGroupRecord) -> resources.Vector:
    """What a group's placed bundles add to their nodes (RAY_FACTS A4.1)."""
    total: resources.Vector = {}
    group = record.spec.placement_group_id.hex()
    for index, (bundle, node) in enumerate(
        zip(record.spec.bundles, record.bundle_nodes, strict=False)
    ):
        if not node:
            continue
        units = resources.BUNDLE_UNITS * resources.RESOURCE_UNIT
        amounts = bundle.resources.amounts
        resources.add(total, resources.bundle_view(group, index, amounts, units))
    return total


def available_resources() -> dict[str, float]:
    """Sum of what is free on all nodes that are alive, and in placed groups under their names."""
    alive = [node for node in node_records() if node.state != t.NODE_STATE_DEAD]
    groups = {group.spec.placement_group_id: group for group in _groups()}
    free: resources.Vector = {}
    for node in alive:
        resources.add(free, node.available.amounts)
    for group in groups.values():
        resources.add(free, group_resources(group))
    for node in alive:
        for use in node.bundle_use:
            group = groups.get(use.placement_group_id)
            # A snapshot may be older than the group's newest record.
            if group is not None and group.bundle_nodes[use.index] == node.node_id:
                resources.subtract(free, _used(use))
    return resources.floats(free)


def _used(use: t.BundleUse) -> resources.Vector:
    units = use.leases * resources.BUNDLE_LEASE_SHARE
    group = use.placement_group_id.hex()
    return resources.bundle_view(group, use.index, use.used.amounts, units)


def _sum(parts: list[Any]) -> dict[str, float]:
    total: resources.Vector = {}
    for part in parts:
        resources.add(total, part)
    return resources.floats(total)
