"""Free capacity of single devices: a fraction must fit on one, more than one must be whole.

Devices of a node are a descending tuple of free amounts: which one is which does not matter for a
choice. The agent decides which device a bundle gets; these rules foresee it (tightest device
first). A request is a tuple of parts, each of which is a fraction of one device or a number of
whole ones.
"""

from __future__ import annotations

from cluster_common.resources import RESOURCE_UNIT

Devices = tuple[int, ...]
Parts = tuple[int, ...]


def capacity(free: Devices, parts: Parts) -> int:
    """How many such requests fit at once.

    Requests of several parts are only tried once (0 or 1).
    """
    if len(parts) != 1:
        left = free
        for part in parts:
            if not capacity(left, (part,)):
                return 0
            left = _take_part(left, part)
        return 1
    amount = sum(parts)
    if amount >= RESOURCE_UNIT:
        return sum(1 for one in free if one >= RESOURCE_UNIT) // (amount // RESOURCE_UNIT)
    return sum(one // amount for one in free if one > 0)


def take(free: Devices, parts: Parts) -> Devices:
    """Free amounts after one request.

    What no device can hold comes off the emptiest (may go below 0).
    """
    for part in parts:
        free = _take_part(free, part)
    return free


def give(free: Devices, parts: Parts) -> Devices:
    """Free amounts after one request ended.

    Guesses the fullest device that can have held each part.
    """
    for part in parts:
        free = _give_part(free, part)
    return free


def _take_part(free: Devices, amount: int) -> Devices:
    if not free:
        return free
    left = list(free)
    for _ in range(amount // RESOURCE_UNIT):
        left[0] -= RESOURCE_UNIT
        left.sort(reverse=True)
    fraction = amount % RESOURCE_UNIT
    if fraction:
        fitting = [position for position, one in enumerate(left) if one >= fraction]
        left[fitting[-1] if fitting else 0] -= fraction
        left.sort(reverse=True)
    return tuple(left)


def _give_part(free: Devices, amount: int) -> Devices:
    if not free:
        return free
    left = list(free)
    for _ in range(amount // RESOURCE_UNIT):
        left[-1] += RESOURCE_UNIT
        left.sort(reverse=True)
    fraction = amount % RESOURCE_UNIT
    if fraction:
        fitting = [p for p, one in enumerate(left) if one + fraction <= RESOURCE_UNIT]
        left[fitting[-1] if fitting else -1] += fraction
        left.sort(reverse=True)
    return tuple(left)
