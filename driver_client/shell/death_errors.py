"""Errors with cause, place and time, made from death records (CONTRACT: Actors and errors)."""

from __future__ import annotations

from cluster_api.v1 import types_pb2 as t
from cluster_common.runtime_packages import RUNTIME_ENV_FAILED
from driver_client import exceptions
from driver_client.objects import serialization

_REASONS = {
    t.ACTOR_DEATH_CAUSE_WORKER_DIED: "its worker process has died",
    t.ACTOR_DEATH_CAUSE_OWNER_DIED: "its owner has died",
    t.ACTOR_DEATH_CAUSE_NODE_DIED: "its node has died",
    t.ACTOR_DEATH_CAUSE_KILLED: "it was killed by `ray.kill` (`shoal.kill`)",
    t.ACTOR_DEATH_CAUSE_OUT_OF_SCOPE: "all references to the actor were removed",
    t.ACTOR_DEATH_CAUSE_EXITED: "it exited by itself",
    t.ACTOR_DEATH_CAUSE_CREATION_FAILED: "its constructor raised",
    t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED: "its placement group was removed",
    t.ACTOR_DEATH_CAUSE_PREEMPTED: "its node was preempted",
    t.ACTOR_DEATH_CAUSE_OUT_OF_MEMORY: "its node ran out of memory",
    t.ACTOR_DEATH_CAUSE_UNSCHEDULABLE: "it can never be placed",
}


def actor_died_error(actor_id: bytes, name: str, death: t.ActorDeath) -> exceptions.ActorDiedError:
    """The error that every later call of a dead actor raises."""
    cause = exceptions.ActorDeathCause(death.cause)
    reason = _REASONS.get(death.cause, "it ended")
    creation_error = serialization.loads(death.creation_error) if death.creation_error else None
    # The agent that starts a detached actor cannot pickle an error; its message says what failed.
    told = creation_error is None and death.message.startswith(RUNTIME_ENV_FAILED)
    no_environment = told or isinstance(creation_error, exceptions.RuntimeEnvSetupError)
    if no_environment:
        reason = "its runtime environment could not be made"
    verb = "died" if death.cause == t.ACTOR_DEATH_CAUSE_NODE_DIED else "is dead"  # Ray's words
    parts = [f"The actor {verb} because {reason}. {name} ({actor_id.hex()}), cause {cause.name}"]
    if death.message:
        parts.append(death.message)
    if death.node_id:
        parts.append(f"node {death.node_id.hex()}")
    if death.owner_id:
        parts.append(f"owner {death.owner_id.hex()}")
    if creation_error is not None and not no_environment:
        parts.append(f"the constructor raised:\n{creation_error}")
    class_ = exceptions.ActorDiedError
    if no_environment:
        class_ = exceptions.ActorRuntimeEnvSetupError
    if death.cause == t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED:
        class_ = exceptions.ActorPlacementGroupRemoved
    elif death.cause == t.ACTOR_DEATH_CAUSE_UNSCHEDULABLE:
        class_ = exceptions.ActorUnschedulableError
    return class_(
        cause,
        actor_id.hex(),
        message="; ".join(parts),
        node_id=death.node_id.hex(),
        owner_id=death.owner_id.hex(),
        time=death.time_ms / 1000,
    )
