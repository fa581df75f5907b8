"""The autoscaler's part of `shoal status`: the requested floor and what an autoscaler last said."""

from __future__ import annotations

from typing import Any

import click

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_common import resources
from shoal.cli import printing, rows

Amounts = dict[str, float]


def scaling_dict(status: auto.GetClusterStatusResponse) -> dict[str, Any]:
    """For JSON: `floor` and `autoscaler`."""
    said = status.autoscaling_state
    return {
        "floor": [{"resources": amounts, "count": count} for amounts, count in _floor(status)],
        "autoscaler": {
            "node_types": {
                one.name: {
                    "resources": resources.floats(one.resources.amounts),
                    "min_nodes": one.min_count,
                    "max_nodes": one.max_count,
                }
                for one in status.cluster_config.node_group_configs
            },
            "pending_instances": [
                {"instance_id": one.instance_id, "node_type": one.ray_node_type_name}
                for one in said.pending_instances
            ],
            "infeasible": [_amounts(one) for one in said.infeasible_resource_requests],
            "infeasible_gangs": [
                one.placement_group_id.hex() for one in said.infeasible_gang_resource_requests
            ],
            "failed_launches": [
                {"node_type": one.ray_node_type_name, "reason": one.reason}
                for one in said.failed_instance_requests
            ],
        },
    }


def print_scaling(status: auto.GetClusterStatusResponse) -> None:
    """For people; nothing when nobody scales this cluster."""
    floor = [[count, rows.amounts_text(amounts)] for amounts, count in _floor(status)]
    if floor:
        printing.print_table("requested floor", ("count", "shape"), floor)
    said = status.autoscaling_state
    if not said.autoscaler_state_version:
        return
    click.echo(f"autoscaler: {len(said.pending_instances)} nodes are starting")
    beyond = [
        ["request", rows.amounts_text(_amounts(one))] for one in said.infeasible_resource_requests
    ]
    beyond += [
        [f"group {one.placement_group_id.hex()}", f"{len(one.requests)} bundles, {one.strategy}"]
        for one in said.infeasible_gang_resource_requests
    ]
    if beyond:
        title = "beyond the node types and their maxima"
        printing.print_table(title, ("what", "shape"), beyond)
    for one in said.failed_instance_requests[-3:]:
        click.echo(f"launch of {one.ray_node_type_name} failed: {one.reason}")


def _floor(status: auto.GetClusterStatusResponse) -> list[tuple[Amounts, int]]:
    return [
        (_amounts(row.request), row.count)
        for constraint in status.cluster_resource_state.cluster_resource_constraints
        for row in constraint.resource_requests
    ]


def _amounts(request: auto.ResourceRequest) -> Amounts:
    return resources.floats(request.resources_bundle.amounts)
