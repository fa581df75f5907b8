"""The node's resources: one pool, and one pool inside each bundle.

A bundle is a grant of the node's pool and has a pool of its own, from which its leases draw; the
group resource names of Ray (`CPU_group_<i>_<pg>` ...) are derived from the bundle pools, so they
can never disagree with them.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster_api.v1 import types_pb2 as t
from cluster_common import resources
from cluster_common.resources import (
    BUNDLE_LEASE_SHARE,
    BUNDLE_UNITS,
    DEVICE_RESOURCES,
    RESOURCE_UNIT,
    Vector,
)
from raylet_agent.core.bundles import Bundle, BundleTable
from raylet_agent.core.resource_pool import ResourcePool


def node_pool(total: Vector) -> ResourcePool:
    """The pool of a whole node: every device resource is split into its devices."""
    devices = {
        name: dict.fromkeys(range(total[name] // RESOURCE_UNIT), RESOURCE_UNIT)
        for name in DEVICE_RESOURCES
        if total.get(name, 0)
    }
    return ResourcePool(total, devices)


class Ledger:
    """The node's pool with its bundles, and the views others get of them.

    `identity`: what the pool has of the resources that name the node, left out of totals.
    """

    def __init__(self, total: Vector, identity: Vector | None = None) -> None:
        self.identity = identity or {}
        self.node = node_pool({**total, **self.identity})
        self.bundles = BundleTable(self.node)

    def check(self) -> list[str]:
        """Every difference between books and grants, in the node and in each bundle."""
        differences = self.node.check("node")
        for bundle in self.bundles.rows():
            what = f"bundle {bundle.group_id.hex()}[{bundle.index}]"
            grant = self.node.grants.get(bundle.grant_key)
            if grant is None or grant.amounts != bundle.pool.total:
                differences.append(f"{what}: the node's grant is not what the bundle holds")
            differences += bundle.pool.check(what)
        return differences

    def totals(self, *, with_groups: bool, with_identity: bool = False) -> Vector:
        """Totals of the node; group resources of committed bundles and its names on request."""
        total = dict(self.node.total) if with_identity else self._unnamed(self.node.total)
        if with_groups:
            for bundle in self._committed():
                resources.add(total, _group_view(bundle, bundle.pool.total, 0))
        return total

    def availables(self, *, with_groups: bool, with_identity: bool = False) -> Vector:
        """What is free; the plain resources of bundles are not."""
        free = self.node.available
        available = dict(free) if with_identity else self._unnamed(free)
        if with_groups:
            for bundle in self._committed():
                used = BUNDLE_LEASE_SHARE * len(bundle.pool.grants)
                resources.add(available, _group_view(bundle, bundle.pool.available, used))
        return available

    def identity_used(self) -> Vector:
        """What is not free of the resources that name the node."""
        free = self.node.available
        return {
            name: amount - free.get(name, 0)
            for name, amount in self.identity.items()
            if free.get(name, 0) != amount
        }

    def _unnamed(self, amounts: Vector) -> Vector:
        unnamed = dict(amounts)
        for name in self.identity:
            unnamed.pop(name, None)
        return unnamed

    def bundle_use(self) -> list[t.BundleUse]:
        """What leases hold of each bundle in which there are any."""
        return [
            t.BundleUse(
                placement_group_id=bundle.group_id,
                index=bundle.index,
                used=t.ResourceSet(amounts=bundle.pool.used()),
                leases=len(bundle.pool.grants),
            )
            for bundle in self._committed()
            if bundle.pool.grants
        ]

    def device_sets(self) -> dict[str, t.DeviceSet]:
        """Free capacity per device, for views of this node elsewhere."""
        return {
            name: t.DeviceSet(free=[free[device] for device in sorted(free)])
            for name, free in self.node.device_free.items()
        }

    def _committed(self) -> Iterable[Bundle]:
        rows = self.bundles.rows()
        return (bundle for bundle in rows if bundle.committed and not bundle.returning)


def _group_view(bundle: Bundle, amounts: Vector, used_share: int) -> Vector:
    units = BUNDLE_UNITS * RESOURCE_UNIT - used_share
    return resources.bundle_view(bundle.group_id.hex(), bundle.index, amounts, units)
