"""What is wanted and what is there: the input of a decision, immutable."""

from __future__ import annotations

import msgspec

from cluster_common import labels as label_rules
from cluster_common.resources import Vector

Selector = tuple[label_rules.Term, ...]


class Shape(msgspec.Struct, frozen=True):
    """`count` equal requests, each for one node."""

    amounts: Vector
    selector: Selector
    count: int = 1


class Gang(msgspec.Struct, frozen=True):
    """Requests that are wanted all together or not at all.

    Attributes:
        strategy: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
        apart: dynamic label of nodes that must not be used; empty for none.
        packed_labels: all bundles need nodes with one value of each.
        packed_values: values that are decided already.
    """

    gang_id: bytes
    bundles: tuple[Shape, ...]
    strategy: str
    apart: str = ""
    packed_labels: tuple[str, ...] = ()
    packed_values: dict[str, str] = {}


class Node(msgspec.Struct, frozen=True):
    """A node alive, or one that was bought and has not registered (`node_id` empty).

    Attributes:
        idle_ms: how long nothing has run there; None: it is in use, or not here yet.
        draining: nothing new goes there.
    """

    node_id: bytes
    instance_id: str
    node_type: str
    total: Vector
    available: Vector
    labels: dict[str, str]
    apart: frozenset[str] = frozenset()
    idle_ms: int | None = None
    draining: bool = False


class Wants(msgspec.Struct, frozen=True):
    """One moment of the cluster. `floor`: shapes that all nodes together must be able to hold."""

    nodes: tuple[Node, ...]
    shapes: tuple[Shape, ...] = ()
    gangs: tuple[Gang, ...] = ()
    floor: tuple[Shape, ...] = ()


class Decision(msgspec.Struct, frozen=True):
    """What to do about it.

    Attributes:
        launch: node type -> how many more.
        release: idle nodes to drain and give back.
        infeasible_shapes: what no node type could hold within its maximum.
        infeasible_gangs: gangs that could not be bought as a whole.
    """

    launch: dict[str, int]
    release: tuple[Node, ...]
    infeasible_shapes: tuple[Shape, ...]
    infeasible_gangs: tuple[Gang, ...]
