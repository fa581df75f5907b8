"""Interned resource vectors of requests, so that memos can be keyed by a small number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster_api.v1 import types_pb2 as t
from cluster_common.identity_resources import is_identity
from cluster_common.resources import DEVICE_RESOURCES, RESOURCE_UNIT, saturated, total_of
from gcs_service.core.placement.limits import AMOUNTS_MAX

Items = tuple[tuple[str, int], ...]
DeviceParts = tuple[tuple[str, tuple[int, ...]], ...]


class Amounts:
    """One requested vector, fixed point. Equal vectors share one object (see `AmountsTable`).

    `devices` lists per device resource the parts that must each fit as a request of their own: the
    sum of two bundles of half a GPU is one GPU in `vector`, but need not be one whole device.
    """

    __slots__ = (
        "devices",
        "hardness",
        "identity",
        "items",
        "message",
        "number",
        "several_parts",
        "vector",
    )

    def __init__(self, number: int, items: Items, devices: DeviceParts) -> None:
        self.number = number
        self.items = items
        self.devices = devices
        self.several_parts = any(len(parts) > 1 for _name, parts in devices)
        self.vector = dict(items)
        self.identity = tuple(name for name, _amount in items if is_identity(name))
        self.hardness = _hardness(self.vector)
        self.message = t.ResourceSet(amounts={name: saturated(each) for name, each in items})
        """For commands: copying a message costs a third of building one."""


def _hardness(vector: Mapping[str, int]) -> tuple[int, ...]:
    """Order in which bundles look for room: devices, custom resources, memory, CPU.

    Larger first.
    """
    plain = ("CPU", "memory", "object_store_memory", *DEVICE_RESOURCES)
    devices = sum(vector.get(name, 0) for name in DEVICE_RESOURCES)
    custom = sum(amount for name, amount in vector.items() if name not in plain)
    memory = vector.get("memory", 0) + vector.get("object_store_memory", 0)
    return (-devices, -custom, -memory, -vector.get("CPU", 0))


class AmountsTable:
    """Vector -> the one `Amounts` for it."""

    def __init__(self) -> None:
        self._by_key: dict[Items | tuple[Items, DeviceParts], Amounts] = {}
        self.parsed: dict[bytes, object] = {}
        """What encoded requests were parsed to (see `request`)."""
        self.names_asked = False
        """Whether any vector ever had a resource that names a node."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._by_key) + len(self.parsed)

    def intern(self, vector: Mapping[str, int]) -> Amounts:
        """The shared object; zero amounts do not count."""
        items = tuple(sorted((name, amount) for name, amount in vector.items() if amount))
        found = self._by_key.get(items)
        if found is not None:
            return found
        devices = tuple((name, (amount,)) for name, amount in items if name in DEVICE_RESOURCES)
        return self._make(items, items, devices)

    def sum(self, parts: Sequence[Amounts]) -> Amounts:
        """All of `parts` together on one node."""
        if len(parts) == 1:
            return parts[0]
        vector = total_of([part.vector for part in parts])
        devices = tuple(
            (name, _merged([part.vector[name] for part in parts if name in part.vector]))
            for name in DEVICE_RESOURCES
            if name in vector
        )
        if all(len(each) == 1 for _name, each in devices):
            return self.intern(vector)
        items = tuple(sorted(vector.items()))
        key = (items, devices)
        return self._by_key.get(key) or self._make(key, items, devices)

    def remember(self, encoded: bytes, parsed: object) -> None:
        """Keeps a parsed request for equal ones."""
        if len(self.parsed) >= AMOUNTS_MAX:
            self.parsed.clear()
        self.parsed[encoded] = parsed

    def _make(
        self, key: Items | tuple[Items, DeviceParts], items: Items, devices: DeviceParts
    ) -> Amounts:
        if len(self._by_key) >= AMOUNTS_MAX:
            # Holders of forgotten objects go on working; only sharing with newer equals is lost.
            self._by_key.clear()
        self._count += 1
        made = Amounts(self._count, items, devices)
        self._by_key[key] = made
        self.names_asked = self.names_asked or bool(made.identity)
        return made


def _merged(parts: list[int]) -> tuple[int, ...]:
    """Whole devices as one part, fractions apart, largest first."""
    whole = sum(part for part in parts if part >= RESOURCE_UNIT)
    fractions = sorted((part for part in parts if part < RESOURCE_UNIT), reverse=True)
    return (whole, *fractions) if whole else tuple(fractions)
