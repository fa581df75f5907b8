"""Enum values of peers: protobuf lets any number in, and what is stored is shown to everybody."""

from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t

_ACTOR_STATES = frozenset(t.ActorState.values())
_ACTOR_CAUSES = frozenset(t.ActorDeathCause.values())
_NODE_CAUSES = frozenset(t.NodeDeathCause.values())
_VERSION_MAX = 1 << 62
"""Versions count changes, and the GCS goes on counting: nobody comes near this honestly."""


def unknown_in_actor(record: t.ActorRecord) -> str:
    """What is wrong with the enum values or the version of a record; empty when nothing is."""
    if record.state not in _ACTOR_STATES:
        return f"actor state {record.state} is not one of {sorted(_ACTOR_STATES)}"
    if record.death.cause not in _ACTOR_CAUSES:
        return f"death cause {record.death.cause} is not one of {sorted(_ACTOR_CAUSES)}"
    if record.version > _VERSION_MAX:
        return f"version {record.version} is above {_VERSION_MAX}"
    return ""


def is_known_event(event: ns.DetachedActorEvent) -> bool:
    """Whether an agent's event about a detached actor has values that we know."""
    return event.cause in _ACTOR_CAUSES


def node_cause(cause: t.NodeDeathCause.ValueType) -> t.NodeDeathCause.ValueType:
    """The cause that an agent states at its end; unknown or none means that it was expected."""
    return cause if cause and cause in _NODE_CAUSES else t.NODE_DEATH_CAUSE_EXPECTED
