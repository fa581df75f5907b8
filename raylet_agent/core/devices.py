"""Single devices of one resource (GPU): a fraction fits on one device, more than one are whole.

Free capacity is a mapping device id -> 1/10,000 units. Inside a bundle the devices are those of the
bundle, each with the share the bundle holds of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster_common.resources import RESOURCE_UNIT

DeviceShares = dict[int, int]


def choose(free: Mapping[int, int], amount: int) -> DeviceShares | None:
    """Devices that hold `amount`, None when none do.

    A fraction takes the fullest device it fits on.
    """
    if amount < RESOURCE_UNIT:
        best: int | None = None
        for device in sorted(free):
            if free[device] >= amount and (best is None or free[device] < free[best]):
                best = device
        return None if best is None else {best: amount}
    count = amount // RESOURCE_UNIT
    whole = [device for device in sorted(free) if free[device] >= RESOURCE_UNIT]
    if amount % RESOURCE_UNIT or len(whole) < count:
        return None
    return dict.fromkeys(whole[:count], RESOURCE_UNIT)


def can_hold(free: list[int], amount: int) -> bool:
    """Whether devices with this free capacity can hold `amount` (for views of other nodes)."""
    return choose(dict(enumerate(free)), amount) is not None
