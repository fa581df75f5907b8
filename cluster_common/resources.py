"""Resource amounts: fixed point, 1/10,000 units, integers inside (DESIGN section 6).

A vector is a plain `dict[str, int]` without zero entries. Free functions keep it that way; ledgers
that own a vector live with their owners.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

Vector = dict[str, int]

RESOURCE_UNIT = 10_000
SMALLEST_STEP = 1 / RESOURCE_UNIT
AMOUNT_UNITS_MAX = 2**62 // RESOURCE_UNIT
AMOUNTS_SUM_MAX = 2**63 - 1
"""Fixed-point units that a field of a message holds."""
DEVICE_RESOURCES = ("GPU",)
"""Resources that are single devices: a fraction must fit on one, more than one must be whole."""

RESERVED_NAMES = ("bundle",)
_NAME_BYTES_MAX = 200


def to_fixed(name: str, amount: float) -> int:
    """Fixed-point form of one amount.

    Raises:
        ValueError: negative, not finite, finer than 1/10,000, too large, or a fraction above one
            device.
        TypeError: not a number.
    """
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(
            f"resource {name!r}: the amount must be a number, not {type(amount).__name__}"
        )
    if not math.isfinite(amount) or amount < 0 or amount > AMOUNT_UNITS_MAX:
        raise ValueError(f"resource {name!r}: {amount} is not in 0 .. {AMOUNT_UNITS_MAX}")
    fixed = round(amount * RESOURCE_UNIT)
    if abs(fixed / RESOURCE_UNIT - amount) > 1e-9 * max(1.0, abs(amount)):
        raise ValueError(
            f"resource {name!r}: {amount!r} is finer than the smallest step, {SMALLEST_STEP}"
        )
    if name in DEVICE_RESOURCES and fixed > RESOURCE_UNIT and fixed % RESOURCE_UNIT:
        raise ValueError(
            f"resource {name!r}: {amount} is above one device and must be a whole number"
        )
    return fixed


def vector(amounts: Mapping[str, float]) -> Vector:
    """Fixed-point vector of user amounts; zero amounts are left out.

    Raises:
        ValueError, TypeError: as `to_fixed`, or a bad resource name.
    """
    result: Vector = {}
    for name, amount in amounts.items():
        if not isinstance(name, str) or not name or len(name.encode()) > _NAME_BYTES_MAX:
            raise ValueError(
                f"resource name {name!r} must be a text of 1 .. {_NAME_BYTES_MAX} bytes"
            )
        if name in RESERVED_NAMES:
            raise ValueError(f"resource name {name!r} is reserved")
        fixed = to_fixed(name, amount)
        if fixed:
            result[name] = fixed
    return result


def to_float(fixed: int) -> float:
    """The amount a user sees; exact for every fixed-point value (no 0.30000000000000004)."""
    return round(fixed / RESOURCE_UNIT, 4)


def floats(amounts: Mapping[str, int]) -> dict[str, float]:
    """User amounts of a vector, sorted by name."""
    return {name: to_float(amounts[name]) for name in sorted(amounts)}


def fits(request: Mapping[str, int], room: Mapping[str, int]) -> bool:
    """Whether every amount of `request` is at most that of `room`."""
    # A plain loop: `all(...)` with a generator costs twice as much on the scheduling path.
    for name, amount in request.items():  # noqa: SIM110 - measured, see above
        if room.get(name, 0) < amount:
            return False
    return True


def add(into: Vector, amounts: Mapping[str, int]) -> None:
    """Adds in place; entries that become zero go."""
    for name, amount in amounts.items():
        value = into.get(name, 0) + amount
        if value:
            into[name] = value
        else:
            into.pop(name, None)


def subtract(from_: Vector, amounts: Mapping[str, int]) -> None:
    """Subtracts in place; entries that become zero go. Does not check: ledgers assert."""
    for name, amount in amounts.items():
        value = from_.get(name, 0) - amount
        if value:
            from_[name] = value
        else:
            from_.pop(name, None)


def total_of(parts: list[Vector]) -> Vector:
    """Sum of vectors."""
    result: Vector = {}
    for part in parts:
        add(result, part)
    return result


def saturated(amount: int) -> int:
    """The amount, or the nearest one that a message can carry.

    Sums over nodes may not fit although every addend does: 2**63 units are 838 TiB of memory.
    """
    return max(-AMOUNTS_SUM_MAX, min(amount, AMOUNTS_SUM_MAX))


def text(amounts: Mapping[str, int]) -> str:
    """`{CPU: 1, GPU: 0.5}` for messages."""
    return "{" + ", ".join(f"{k}: {v:g}" for k, v in floats(amounts).items()) + "}"


# ---- bundle resources on a node (names follow Ray)

BUNDLE_UNITS = 1_000
"""How much `bundle_group` resource a committed bundle makes (Ray: 1000)."""

BUNDLE_LEASE_SHARE = RESOURCE_UNIT // 1_000
"""What one lease takes of it, fixed point (Ray: 0.001)."""


def indexed_name(resource: str, index: int, group_hex: str) -> str:
    """`CPU_group_<i>_<pg>`: the resource inside one bundle."""
    return f"{resource}_group_{index}_{group_hex}"


def wildcard_name(resource: str, group_hex: str) -> str:
    """`CPU_group_<pg>`: the resource inside any bundle of the group on this node."""
    return f"{resource}_group_{group_hex}"


def bundle_view(group_hex: str, index: int, amounts: Mapping[str, int], units: int) -> Vector:
    """A bundle's amounts under the names they have on its node; `units`: of `bundle`, fixed."""
    view: Vector = {}
    for name, amount in (*amounts.items(), ("bundle", units)):
        view[indexed_name(name, index, group_hex)] = amount
        view[wildcard_name(name, group_hex)] = amount
    return view


def is_group_name(resource: str) -> bool:
    """Whether a resource name belongs to a placement group's bundle."""
    return "_group_" in resource
