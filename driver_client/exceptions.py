"""Errors a user can catch; names and tree are Ray's (RAY_FACTS C3), causes are CONTRACT.md's."""

from __future__ import annotations

from driver_client.actor_errors import (
    ActorDeathCause,
    ActorDiedError,
    ActorPlacementGroupRemoved,
    ActorRuntimeEnvSetupError,
    ActorUnavailableError,
    ActorUnschedulableError,
    RayActorError,
    RuntimeEnvSetupError,
)
from driver_client.base_errors import (
    NotConnectedError,
    RayError,
    RaySystemError,
    RpcError,
    ToldError,
)
from driver_client.object_errors import (
    ObjectFetchTimedOutError,
    ObjectFreedError,
    ObjectLostError,
    ObjectReconstructionFailedError,
    OwnerDiedError,
    ReferenceCountingAssertionError,
)
from driver_client.objects import serialization
from driver_client.task_error import RayTaskError

__all__ = [
    "ActorAlreadyExistsError",
    "ActorDeathCause",
    "ActorDiedError",
    "ActorHandleNotFoundError",
    "ActorPlacementGroupRemoved",
    "ActorRuntimeEnvSetupError",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "AsyncioActorExit",
    "AuthenticationError",
    "GetTimeoutError",
    "KvError",
    "KvQuotaError",
    "KvTooLargeError",
    "LocalRayletDiedError",
    "NodeDiedError",
    "NotConnectedError",
    "ObjectFetchTimedOutError",
    "ObjectFreedError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "ObjectStoreFullError",
    "OutOfDiskError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "PlacementGroupRemovedError",
    "PlasmaObjectNotAvailable",
    "RayActorError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "ReferenceCountingAssertionError",
    "RpcError",
    "RuntimeEnvSetupError",
    "TaskCancelledError",
    "TaskPlacementGroupRemoved",
    "TaskUnschedulableError",
    "UnserializableException",
    "UserCodeException",
    "WorkerCrashedError",
    "pickle_error",
]


class KvError(RpcError):
    """The key-value store refused a value."""


class KvQuotaError(KvError):
    """A namespace of the key-value store is full; others are not concerned."""


class KvTooLargeError(KvError, ValueError):
    """A key or value is larger than the key-value store takes."""


class AuthenticationError(RayError):
    """The cluster wants a token and did not get the right one."""

    def __init__(self, message: str = "The cluster wants a token.") -> None:
        super().__init__(message)

    @property
    def message(self) -> str:
        """The text."""
        return str(self)


class UserCodeException(RayError):
    """User code failed where it was not a task (callbacks)."""


class TaskCancelledError(RayError):
    """The task was cancelled."""

    def __init__(self, task_id: str | None = None, error_message: str | None = None) -> None:
        self.task_id = task_id
        what = f"Task {task_id} was cancelled." if task_id else "The task was cancelled."
        super().__init__(error_message or what)

    @property
    def error_message(self) -> str:
        """The text."""
        return str(self)


class GetTimeoutError(RayError, TimeoutError):
    """`get` ran out of time. For a group's `ready()`: `reason` is the stable token of `explain`."""

    def __init__(self, message: str = "", reason: str = "") -> None:
        self.reason = reason
        super().__init__(message)


class WorkerCrashedError(RayError):
    """The worker that ran the task ended before the task did."""

    def __init__(self, message: str = "", node_id: str = "", cause: str = "WORKER_DIED") -> None:
        self.node_id = node_id
        self.cause = ActorDeathCause[cause]
        super().__init__(message or "The worker died unexpectedly while it ran this task.")

    @property
    def message(self) -> str:
        """The text."""
        return str(self)


class NodeDiedError(WorkerCrashedError):
    """The node on which the task ran died."""

    def __init__(self, message: str = "", node_id: str = "", cause: str = "NODE_DIED") -> None:
        super().__init__(message or "The node died while it ran this task.", node_id, cause)


class LocalRayletDiedError(ToldError):
    """The agent this process belongs to is gone."""

    default = "The agent of this process's node is gone."


class OutOfMemoryError(RayError):
    """The worker was ended because the node ran out of memory."""

    def __init__(self, message: str = "The node ran out of memory.") -> None:
        super().__init__(message)

    @property
    def message(self) -> str:
        """The text."""
        return str(self)


class TaskPlacementGroupRemoved(ToldError):
    """The task's placement group was removed before it ran."""

    default = "The task's placement group was removed."


class PlacementGroupRemovedError(RayError):
    """The placement group was removed: it will not become ready."""


class TaskUnschedulableError(ToldError):
    """The task can never be placed as it was asked for."""

    default = "The task can never be placed."


class PendingCallsLimitExceeded(RayError):
    """More calls wait for the actor than `max_pending_calls` allows."""


class ObjectStoreFullError(RayError):
    """There is no room for the value."""


class OutOfDiskError(RayError):
    """There is no room on disk."""


class AsyncioActorExit(RayError):
    """Ray's name for what ends an async actor; here `exit_actor` raises it as ActorDiedError."""


class PlasmaObjectNotAvailable(RayError):
    """Ray's name for a value that is not in the node's store in time."""


class UnserializableException(RayError):
    """Ray's name for an error that could not be read; here it stays a RayTaskError."""


class ActorAlreadyExistsError(ToldError, ValueError):
    """The name is taken; the message says by whom."""


class ActorHandleNotFoundError(ToldError, ValueError):
    """No actor has this name."""


def pickle_error(error: BaseException) -> bytes:
    """Serialized form of an error; one that cannot be pickled travels as its text."""
    try:
        return serialization.dumps_by_value(error)
    except Exception as problem:  # noqa: BLE001 - user classes can raise anything while pickled
        text = f"{type(error).__name__}: {error} (the error itself cannot be pickled: {problem!r})"
        return serialization.dumps_by_value(RaySystemError(text))
