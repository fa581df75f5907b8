"""A ledger of amounts and devices with named grants: the node's, and each bundle's.

Never negative, never clamped: callers ask `lacks` first, `take` asserts. What a blocked worker
lends back stays written on its grant, so that the sums always add up.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cluster_common import resources
from cluster_common.resources import Vector
from raylet_agent.core.devices import DeviceShares, choose

INSUFFICIENT = "insufficient_free"
FRAGMENTED = "device_fragmentation"


class Allotment(msgspec.Struct):
    """What one grant holds; `lent` is the part given back while its worker is blocked."""

    amounts: Vector
    devices: dict[str, DeviceShares]
    lent: Vector


class ResourcePool:
    """Totals, what is free of them, and who holds the rest.

    Args:
        total: amounts of the pool.
        devices: per device resource, capacity of each device id; sums to the total of that
        resource.
    """

    def __init__(self, total: Vector, devices: Mapping[str, DeviceShares]) -> None:
        self.total: Vector = dict(total)
        self.available: Vector = dict(total)
        self.device_total = {name: dict(shares) for name, shares in devices.items()}
        self.device_free = {name: dict(shares) for name, shares in devices.items()}
        self.grants: dict[bytes, Allotment] = {}
        for name, shares in devices.items():
            assert sum(shares.values()) == total.get(name, 0), f"devices of {name} do not sum up"

    def lacks(self, need: Mapping[str, int]) -> str | None:
        """Why `need` cannot be taken now (a stable token), None when it can."""
        for name, amount in need.items():
            if self.available.get(name, 0) < amount:
                return INSUFFICIENT
        for name, free in self.device_free.items():
            amount = need.get(name, 0)
            if amount and choose(free, amount) is None:
                return FRAGMENTED
        return None

    def could_ever_hold(self, need: Mapping[str, int]) -> bool:
        """Whether the empty pool would hold `need`."""
        if not resources.fits(need, self.total):
            return False
        for name, shares in self.device_total.items():
            amount = need.get(name, 0)
            if amount and choose(shares, amount) is None:
                return False
        return True

    def used(self) -> Vector:
        """What is not free."""
        used = dict(self.total)
        resources.subtract(used, self.available)
        return used

    def take(self, key: bytes, amounts: Vector) -> Allotment:
        """Takes amounts that `lacks` said are there."""
        assert key not in self.grants, f"grant {key.hex()} exists"
        assert self.lacks(amounts) is None, f"{resources.text(amounts)} is not free"
        shares: dict[str, DeviceShares] = {}
        for name, free in self.device_free.items():
            amount = amounts.get(name, 0)
            if not amount:
                continue
            chosen = choose(free, amount)
            assert chosen is not None
            for device, share in chosen.items():
                free[device] -= share
            shares[name] = chosen
        resources.subtract(self.available, amounts)
        allotment = Allotment(dict(amounts), shares, {})
        self.grants[key] = allotment
        return allotment

    def release(self, key: bytes) -> Vector:
        """Gives a grant back; returns what became free."""
        allotment = self.grants.pop(key)
        freed = dict(allotment.amounts)
        resources.subtract(freed, allotment.lent)
        resources.add(self.available, freed)
        for name, shares in allotment.devices.items():
            for device, share in shares.items():
                self.device_free[name][device] += share
        return freed

    def lend(self, key: bytes, name: str) -> Vector:
        """A blocked worker's amount of `name` becomes free meanwhile; returns what became free."""
        allotment = self.grants[key]
        assert name not in self.device_total, f"{name} is a device resource"
        amount = allotment.amounts.get(name, 0) - allotment.lent.get(name, 0)
        if not amount:
            return {}
        lent = {name: amount}
        resources.add(allotment.lent, lent)
        resources.add(self.available, lent)
        return lent

    def owes(self, key: bytes) -> bool:
        """Whether part of the grant is lent."""
        return bool(self.grants[key].lent)

    def take_back(self, key: bytes) -> bool:
        """Takes lent amounts again; False when they are not free now."""
        allotment = self.grants[key]
        if not resources.fits(allotment.lent, self.available):
            return False
        resources.subtract(self.available, allotment.lent)
        allotment.lent = {}
        return True

    def check(self, what: str) -> list[str]:
        """Differences between the books and the sum of grants; empty when all is right."""
        held: Vector = {}
        for allotment in self.grants.values():
            resources.add(held, allotment.amounts)
            resources.subtract(held, allotment.lent)
        differences: list[str] = []
        for name in sorted({*self.total, *self.available, *held}):
            total, free = self.total.get(name, 0), self.available.get(name, 0)
            if free < 0 or free > total or held.get(name, 0) != total - free:
                differences.append(
                    f"{what}: {name}: total {total}, available {free}, granted {held.get(name, 0)}"
                )
        return differences + self._check_devices(what)

    def _check_devices(self, what: str) -> list[str]:
        differences: list[str] = []
        for name, capacities in self.device_total.items():
            for device, capacity in capacities.items():
                held = sum(
                    grant.devices.get(name, {}).get(device, 0) for grant in self.grants.values()
                )
                free = self.device_free[name][device]
                if free < 0 or held != capacity - free:
                    books = f"capacity {capacity}, free {free}, granted {held}"
                    differences.append(f"{what}: {name} device {device}: {books}")
        return differences
