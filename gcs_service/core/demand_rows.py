"""Nodes as an autoscaler sees them, encoded once per change.

A snapshot of 10,000 nodes is a join of encoded rows: building the messages anew would hold the
interpreter for 100 ms at every question. What changes by itself (how long a node has been idle) is
appended to a row when it is asked for; in protobuf, later fields add to earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import types_pb2 as t
from cluster_common import resources
from gcs_service.core.demand_facts import NodeFact
from gcs_service.core.wire_bytes import number_tag, varint

INSTANCE_ID_LABEL = "shoal.io/instance-id"
NODE_TYPE_LABEL = "shoal.io/node-type"
INSTANCE_TYPE_LABEL = "shoal.io/instance-type"
"""Set by providers on the nodes they start."""

_IDLE_TAG = number_tag(auto.ClusterNodeState.IDLE_DURATION_MS_FIELD_NUMBER)
_IDLE_MS_MAX = 1 << 62
"""An agent that states an absurd time must not keep others from their answer."""


class NodeRow:
    """One node alive."""

    __slots__ = ("_encoded", "_fixed", "_status", "fact", "idle_since_ms")

    def __init__(self, fact: NodeFact) -> None:
        self.fact = fact
        self.idle_since_ms = _idle_since(fact)
        self._encoded: bytes | None = None
        self._fixed: bytes | None = None
        self._status = auto.NODE_STATUS_UNSPECIFIED

    def replace(self, fact: NodeFact) -> None:
        """A newer fact; the age of idleness counts from when its snapshot was first seen."""
        if fact.snapshot is not self.fact.snapshot:
            self.idle_since_ms = _idle_since(fact)
            if fact.snapshot.total != self.fact.snapshot.total:
                self._fixed = None
        if fact.record is not self.fact.record:
            self._fixed = None
        self.fact = fact
        self._encoded = None

    def encode(self, now_ms: int, marks: bytes) -> bytes:
        """A `ClusterNodeState` as of now; `marks`: more of its fields, encoded."""
        if self._encoded is None:
            if self._fixed is None:
                self._fixed = _fixed(self.fact)
            self._status = self._status_now()
            self._encoded = self._fixed + _moving(self.fact, self._status)
        encoded = self._encoded
        if self._status == auto.NODE_STATUS_IDLE and self.idle_since_ms is not None:
            idle_ms = max(1, min(now_ms - self.idle_since_ms, _IDLE_MS_MAX))
            encoded += _IDLE_TAG + varint(idle_ms)
        return encoded + marks

    def _status_now(self) -> auto.NodeStatus.ValueType:
        fact = self.fact
        if fact.record.state == t.NODE_STATE_DRAINING or fact.snapshot.draining:
            return auto.NODE_STATUS_DRAINING
        if self.idle_since_ms is None:
            return auto.NODE_STATUS_RUNNING
        # A reservation on its way to the node: it is not idle any more, and does not know it yet.
        promised = any(
            fact.room.get(name, 0) < amount
            for name, amount in fact.snapshot.available.amounts.items()
        )
        return auto.NODE_STATUS_RUNNING if promised else auto.NODE_STATUS_IDLE


def dead_row(record: t.NodeRecord) -> bytes:
    """A `ClusterNodeState` of a node that is gone."""
    state = _identity(record)
    state.status = auto.NODE_STATUS_DEAD
    return state.SerializeToString()


def node_key(values: Mapping[str, object]) -> str:
    """A mapping as text in a fixed order."""
    return ",".join(f"{name}={values[name]}" for name in sorted(values))


def _idle_since(fact: NodeFact) -> int | None:
    idle_ms = fact.snapshot.idle_ms
    return fact.seen_ms - idle_ms if idle_ms > 0 else None


def _fixed(fact: NodeFact) -> bytes:
    """What is the same from snapshot to snapshot."""
    state = _identity(fact.record)
    state.total_resources.amounts.update(fact.snapshot.total.amounts or fact.record.total.amounts)
    return state.SerializeToString()


def _moving(fact: NodeFact, status: auto.NodeStatus.ValueType) -> bytes:
    room = {name: resources.saturated(amount) for name, amount in fact.room.items()}
    state = auto.ClusterNodeState(
        available_resources=t.ResourceSet(amounts=room),
        node_state_version=fact.snapshot.version,
        drain_accepted=fact.snapshot.draining,
        status=status,
    )
    return state.SerializeToString()


def _identity(record: t.NodeRecord) -> auto.ClusterNodeState:
    labels = dict(record.labels)
    return auto.ClusterNodeState(
        node_id=record.node_id,
        instance_id=labels.get(INSTANCE_ID_LABEL, ""),
        ray_node_type_name=labels.get(NODE_TYPE_LABEL, ""),
        instance_type_name=labels.get(INSTANCE_TYPE_LABEL, ""),
        node_ip_address=record.address.rpartition(":")[0],
        labels=labels,
        is_head=record.is_head,
    )
