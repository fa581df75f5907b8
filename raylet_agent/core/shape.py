"""What a lease request needs, in a hashable form: requests of one shape wait in one line."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cluster_api.v1 import agent_pb2 as a
from cluster_common import ids, labels
from cluster_common.resources import DEVICE_RESOURCES, RESOURCE_UNIT, Vector

Amounts = tuple[tuple[str, int], ...]
ANY_BUNDLE = -1
_GROUP_ID_BYTES = ids.TASK_ID_BYTES


class Shape(msgspec.Struct, frozen=True):
    """Everything placement looks at. Hold: taken while leased. Need: must be free to place."""

    hold: Amounts
    need: Amounts
    selectors: tuple[tuple[labels.Term, ...], ...]
    """The wanted selector first, then the fallbacks in order."""
    strategy: int
    affinity: bytes
    affinity_soft: bool
    group_id: bytes
    bundle_index: int
    scattered: bool
    """An actor that holds nothing while it lives: every node always has room for one more, so these
    go round the nodes instead of piling up on the one that was asked first."""

    def held(self) -> Vector:
        """Amounts taken while leased."""
        return dict(self.hold)

    def needed(self) -> Vector:
        """Amounts that must be free."""
        return dict(self.need)


def shape_of(request: a.LeaseRequest) -> Shape:
    """The shape of a request.

    Raises:
        ValueError: names the field and what is allowed.
    """
    hold = _amounts("resources", request.resources.amounts)
    place = hold
    if request.HasField("placement_resources"):
        place = _amounts("placement_resources", request.placement_resources.amounts)
    need = {name: max(amount, hold.get(name, 0)) for name, amount in place.items()}
    for name, amount in hold.items():
        need.setdefault(name, amount)
    selectors = [labels.parse_selector(request.selector.terms)]
    selectors += [labels.parse_selector(each.terms) for each in request.fallback]
    group_id = request.placement_group_id
    if group_id and len(group_id) != _GROUP_ID_BYTES:
        raise ValueError(f"placement_group_id has {len(group_id)} bytes, not {_GROUP_ID_BYTES}")
    if group_id and request.bundle_index < ANY_BUNDLE:
        raise ValueError(f"bundle_index {request.bundle_index} is below -1 (any bundle)")
    affinity = request.affinity_node_id
    if affinity and len(affinity) != ids.NODE_ID_BYTES:
        raise ValueError(f"affinity_node_id has {len(affinity)} bytes, not {ids.NODE_ID_BYTES}")
    return Shape(
        hold=tuple(sorted(hold.items())),
        need=tuple(sorted(need.items())),
        selectors=tuple(selectors),
        strategy=request.strategy,
        affinity=b"" if group_id else affinity,
        affinity_soft=request.affinity_soft,
        group_id=group_id,
        bundle_index=request.bundle_index if group_id else ANY_BUNDLE,
        scattered=bool(request.actor_id) and not hold and not group_id and not affinity,
    )


def _amounts(what: str, amounts: Mapping[str, int]) -> Vector:
    result: Vector = {}
    for name, amount in amounts.items():
        if amount < 0:
            raise ValueError(f"{what}[{name!r}] is {amount}, negative amounts are not allowed")
        if name in DEVICE_RESOURCES and amount > RESOURCE_UNIT and amount % RESOURCE_UNIT:
            raise ValueError(f"{what}[{name!r}]: above one device only whole numbers are allowed")
        if amount:
            result[name] = amount
    return result
