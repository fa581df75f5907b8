"""Ray's `ray.util`: placement groups, scheduling strategies, named actors, pools and queues."""

from typing import Any

from driver_client import api
from shoal.util.actor_pool import ActorPool
from shoal.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)


def list_named_actors(all_namespaces: bool = False) -> list[Any]:  # noqa: FBT001, FBT002 - Ray's signature
    """Names of named actors that live; with all namespaces: dicts of name and namespace."""
    return api.list_named_actors(all_namespaces=all_namespaces)


__all__ = [
    "ActorPool",
    "get_current_placement_group",
    "get_placement_group",
    "list_named_actors",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
]
