"""Records as plain rows for tables and JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cluster_api.v1 import placement_groups_pb2 as groups_pb2
from cluster_api.v1 import types_pb2
from cluster_common import labels, resources

SHORT_ID = 12

Row = dict[str, Any]


def node_row(node: types_pb2.NodeRecord) -> Row:
    """One node."""
    return {
        "node_id": node.node_id.hex(),
        "state": _name(types_pb2.NodeState.Name(node.state), "NODE_STATE_"),
        "node_name": node.node_name,
        "address": node.address,
        "hostname": node.hostname,
        "is_head": node.is_head,
        "is_scheduler": node.is_scheduler,
        "total": resources.floats(node.total.amounts),
        "available": resources.floats(node.available.amounts),
        "labels": labels.shown(node.labels),
        "pid": node.pid,
        "started": time_text(node.start_time_ms),
        "drain_message": node.drain_message,
        "drain_deadline": time_text(node.drain_deadline_ms),
        "ended": time_text(node.end_time_ms),
        "death_cause": _name(types_pb2.NodeDeathCause.Name(node.death_cause), "NODE_DEATH_CAUSE_"),
        "death_message": node.death_message,
    }


def actor_row(actor: types_pb2.ActorRecord) -> Row:
    """One actor."""
    return {
        "actor_id": actor.actor_id.hex(),
        "class_name": actor.class_name,
        "state": _name(types_pb2.ActorState.Name(actor.state), "ACTOR_STATE_"),
        "name": actor.name,
        "namespace": actor.namespace,
        "job_id": actor.job_id.hex(),
        "node_id": actor.node_id.hex(),
        "pid": actor.pid,
        "restarts": actor.restarts,
        "detached": actor.detached,
        "placement_group_id": actor.placement_group_id.hex(),
        "death_cause": _name(
            types_pb2.ActorDeathCause.Name(actor.death.cause), "ACTOR_DEATH_CAUSE_"
        ),
        "death_message": actor.death.message,
    }


def group_row(group: groups_pb2.PlacementGroupRecord) -> Row:
    """One placement group."""
    return {
        "placement_group_id": group.spec.placement_group_id.hex(),
        "name": group.spec.name,
        "state": group_state(group.state),
        "strategy": _name(
            groups_pb2.PlacementStrategy.Name(group.spec.strategy), "PLACEMENT_STRATEGY_"
        ),
        "bundles": [resources.floats(b.resources.amounts) for b in group.spec.bundles],
        "bundle_nodes": [node.hex() for node in group.bundle_nodes],
        "topology_assignment": dict(group.topology_assignment),
        "reason": group.reason,
        "message": group.message,
        "overtaken": group.overtaken,
        "attempts": group.scheduling_attempts,
        "latency_ms": group.scheduling_latency_ms,
        "created": time_text(group.created_time_ms),
    }


def group_state(state: groups_pb2.PlacementGroupState.ValueType) -> str:
    """`CREATED` and so on."""
    return _name(groups_pb2.PlacementGroupState.Name(state), "PLACEMENT_GROUP_STATE_")


def amounts_text(amounts: dict[str, float]) -> str:
    """`CPU 2, memory 1.5G`; bytes as such."""
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in amounts.items())


def amount_text(name: str, amount: float) -> str:
    """An amount; memory in powers of 1024."""
    if not name.endswith("memory"):
        return f"{amount:g}"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.3g} TiB"


def time_text(wall_ms: int) -> str:
    """ISO time in UTC; empty for 0."""
    if not wall_ms:
        return ""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _name(text: str, prefix: str) -> str:
    name = text.removeprefix(prefix)
    return "" if name == "UNSPECIFIED" else name
