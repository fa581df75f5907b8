"""Ray's `ray.util`: placement groups, scheduling strategies, named actors, pools and queues."""

from typing import Any

from driver_client import api
from shoal.util.actor_pool import ActorPool
from shoal.util.check_serialize import inspect_serializability
from shoal.util.completion import as_completed, map_unordered
from shoal.util.node_address import get_node_instance_id, get_node_ip_address
from shoal.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from shoal.util.serialization import deregister_serializer, register_serializer


def list_named_actors(all_namespaces: bool = False) -> list[Any]:  # noqa: FBT001, FBT002 - Ray's signature
    """Names of named actors that live; with all namespaces: dicts of name and namespace."""
    return api.list_named_actors(all_namespaces=all_namespaces)


__all__ = [
    "ActorPool",
    "as_completed",
    "deregister_serializer",
    "get_current_placement_group",
    "get_node_instance_id",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "register_serializer",
    "remove_placement_group",
]
