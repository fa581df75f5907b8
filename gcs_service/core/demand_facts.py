"""What the demand table needs to know of the cluster, as immutable facts that cross threads.

One `DemandUpdate` holds everything that one batch of the core changed. It is applied as a whole, so
the table never shows a moment at which something is pending and placed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t


class NodeFact(msgspec.Struct, frozen=True, gc=False):
    """One node now.

    Attributes:
        room: newest snapshot minus reservations that it does not contain; fixed point.
        seen_ms: monotonic time of this fact, for the age of `snapshot.idle_ms`.
    """

    record: t.NodeRecord
    snapshot: ns.ResourceSnapshot
    room: Mapping[str, int]
    seen_ms: int


class GroupFact(msgspec.Struct, frozen=True, gc=False):
    """A group that waits for a place.

    Attributes:
        order: groups are served in this order.
        missing: indexes of the bundles without a node.
        domain: what was decided by placed bundles, a value for each of the first `packed_labels`.
        holders: nodes that must not get another of its bundles.
    """

    order: int
    spec: pg.PlacementGroupSpec
    missing: tuple[int, ...]
    packed_labels: tuple[str, ...]
    domain: tuple[str, ...]
    infeasible: bool
    holders: tuple[bytes, ...]


class DemandUpdate(msgspec.Struct, frozen=True, gc=False):
    """What changed, in any order.

    Attributes:
        nodes: by id; None for a node that is dead or forgotten.
        reports: agents' demand; None when an agent begins anew.
        groups: by id; None for a group that waits no more.
        detached: all detached actors without a node, or None when they are the same as before.
    """

    nodes: Mapping[bytes, NodeFact | None]
    reports: Sequence[tuple[bytes, ns.DemandReport | None]]
    groups: Mapping[bytes, GroupFact | None]
    detached: Sequence[ns.DemandEntry] | None
