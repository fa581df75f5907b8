"""What the end of a lease, or of the wish for one, means for what it was for."""

from __future__ import annotations

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import types_pb2 as t

ASK_AGAIN_MS = 50
"""Before a lease is asked for again that failed by a race: its request or bundle had moved on."""

_AGAIN = (pb.LEASE_FAILURE_CANCELLED, pb.LEASE_FAILURE_BUNDLE_NOT_HERE)
_FINAL = {
    pb.LEASE_FAILURE_PLACEMENT_GROUP_REMOVED: t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED,
    pb.LEASE_FAILURE_OWNER_DEAD: t.ACTOR_DEATH_CAUSE_OWNER_DIED,
    pb.LEASE_FAILURE_UNSCHEDULABLE: t.ACTOR_DEATH_CAUSE_UNSCHEDULABLE,
    pb.LEASE_FAILURE_RUNTIME_ENV_FAILED: t.ACTOR_DEATH_CAUSE_CREATION_FAILED,
}
_DEATHS = {
    pb.WORKER_END_CAUSE_EXITED: t.ACTOR_DEATH_CAUSE_EXITED,
    pb.WORKER_END_CAUSE_OWNER_DIED: t.ACTOR_DEATH_CAUSE_OWNER_DIED,
    pb.WORKER_END_CAUSE_NODE_DIED: t.ACTOR_DEATH_CAUSE_NODE_DIED,
    pb.WORKER_END_CAUSE_PLACEMENT_GROUP_REMOVED: t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED,
    pb.WORKER_END_CAUSE_OUT_OF_MEMORY: t.ACTOR_DEATH_CAUSE_OUT_OF_MEMORY,
    pb.WORKER_END_CAUSE_PREEMPTED: t.ACTOR_DEATH_CAUSE_PREEMPTED,
}


def is_asked_again(reason: pb.LeaseFailure.ValueType) -> bool:
    """Whether the same request may succeed in a moment."""
    return reason in _AGAIN


def final_cause(reason: pb.LeaseFailure.ValueType) -> t.ActorDeathCause.ValueType | None:
    """What the actor dies of; None: it counts as one loss of its worker, and may restart."""
    return _FINAL.get(reason)


def death_cause(
    end: pb.WorkerEndCause.ValueType, *, group_is_gone: bool
) -> t.ActorDeathCause.ValueType:
    """The actor's view of its worker's end.

    A bundle that is given back while its group lives is placed again with its whole gang: the actor
    follows it.
    """
    cause = _DEATHS.get(end, t.ACTOR_DEATH_CAUSE_WORKER_DIED)
    if cause == t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED and not group_is_gone:
        return t.ACTOR_DEATH_CAUSE_NODE_DIED
    return cause
