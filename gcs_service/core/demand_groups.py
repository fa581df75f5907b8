"""Groups that wait, as an autoscaler sees them, encoded once and only when somebody asks.

A group that is placed at once is never encoded: building its message for every change would cost
the core more than placing it.
"""

from __future__ import annotations

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.demand_facts import GroupFact

_STRATEGY_PREFIX = "PLACEMENT_STRATEGY_"


class GroupRow:
    """One group that waits."""

    __slots__ = ("_encoded", "_mark", "fact")

    def __init__(self, fact: GroupFact) -> None:
        self.fact = fact
        self._encoded: bytes | None = None
        self._mark: bytes | None = None

    def encode(self) -> bytes:
        """A `GangResourceRequest`."""
        if self._encoded is None:
            self._encoded = _encoded_request(self.fact)
        return self._encoded

    def mark(self) -> bytes:
        """What every node that holds one of its bundles has in its `ClusterNodeState`."""
        if self._mark is None:
            label = group_label(self.fact.spec.placement_group_id)
            state = auto.ClusterNodeState(dynamic_labels={label: ""})
            self._mark = state.SerializeToString()
        return self._mark


def group_label(group_id: bytes) -> str:
    """The dynamic label of nodes that hold a bundle of a strictly spread group (as in Ray)."""
    return f"_PG_{group_id.hex()}"


def _encoded_request(fact: GroupFact) -> bytes:
    """Bundles that are the same, as most are, are encoded once."""
    spec = fact.spec
    frame = auto.GangResourceRequest(
        placement_group_id=spec.placement_group_id,
        strategy=pg.PlacementStrategy.Name(spec.strategy).removeprefix(_STRATEGY_PREFIX),
        packed_labels=fact.packed_labels,
        packed_values=dict(zip(fact.packed_labels, fact.domain, strict=False)),
        details=spec.name,
        infeasible=fact.infeasible,
    )
    constraints: list[auto.PlacementConstraint] = []
    if spec.strategy == pg.PLACEMENT_STRATEGY_STRICT_SPREAD:
        constraints.append(_keep_apart(spec.placement_group_id))
    pieces = [frame.SerializeToString()]
    known: dict[bytes, bytes] = {}
    for index in fact.missing:
        bundle = spec.bundles[index]
        like = bundle.SerializeToString(deterministic=True)
        piece = known.get(like)
        if piece is None:
            known[like] = piece = _encoded_bundle(bundle, constraints)
        pieces.append(piece)
    return b"".join(pieces)


def _encoded_bundle(bundle: pg.BundleSpec, constraints: list[auto.PlacementConstraint]) -> bytes:
    one = auto.ResourceRequest(
        resources_bundle=bundle.resources,
        label_selector=bundle.selector,
        placement_constraints=constraints,
    )
    return auto.GangResourceRequest(requests=[one]).SerializeToString()


def _keep_apart(group_id: bytes) -> auto.PlacementConstraint:
    label = auto.AffinityConstraint(label_name=group_label(group_id), label_value="")
    return auto.PlacementConstraint(anti_affinity=label)
