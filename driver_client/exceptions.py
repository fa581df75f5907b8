"""Errors a user can catch; names and tree are Ray's (RAY_FACTS C3), causes are CONTRACT.md's."""

from __future__ import annotations

import enum
from typing import Any

from driver_client.objects import serialization


class ActorDeathCause(enum.Enum):
    """Why an actor, its worker or its owner ended."""

    UNSPECIFIED = 0
    WORKER_DIED = 1
    OWNER_DIED = 2
    NODE_DIED = 3
    KILLED = 4
    OUT_OF_SCOPE = 5
    EXITED = 6
    CREATION_FAILED = 7
    PLACEMENT_GROUP_REMOVED = 8
    PREEMPTED = 9
    OUT_OF_MEMORY = 10
    UNSCHEDULABLE = 11


class RayError(Exception):
    """Base of everything the runtime raises."""


class RaySystemError(RayError):
    """The runtime itself failed."""


class RpcError(RayError):
    """A service could not be reached, or refused. `code`: name of gRPC's status, if any."""

    def __init__(self, message: str = "", code: str = "") -> None:
        self.code = code
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.code)


class KvError(RpcError):
    """The key-value store refused a value."""


class KvQuotaError(KvError):
    """A namespace of the key-value store is full; others are not concerned."""


class KvTooLargeError(KvError, ValueError):
    """A key or value is larger than the key-value store takes."""


class AuthenticationError(RayError):
    """The cluster wants a token and did not get the right one."""


class UserCodeException(RayError):
    """User code failed where it was not a task (callbacks)."""


class TaskCancelledError(RayError):
    """The task was cancelled."""

    def __init__(self, task_id: str | None = None, message: str = "") -> None:
        self.task_id = task_id
        super().__init__(message or f"Task {task_id or ''} was cancelled.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.task_id, str(self))


class GetTimeoutError(RayError, TimeoutError):
    """`get` ran out of time. For a group's `ready()`: `reason` is the stable token of `explain`."""

    def __init__(self, message: str = "", reason: str = "") -> None:
        self.reason = reason
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.reason)


class RayTaskError(RayError):
    """User code raised. What `get` raises is this and the user's class at once.

    Attributes:
        function_name: the remote function or method.
        traceback_str: the traceback as it was where the code ran.
        cause: the original exception, when it could be pickled.
        pid, node_id: where it ran.
    """

    def __init__(
        self,
        function_name: str = "",
        traceback_str: str = "",
        cause: BaseException | None = None,
        pid: int = 0,
        node_id: str = "",
        cause_name: str = "",
    ) -> None:
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.pid = pid
        self.node_id = node_id
        self.cause_name = cause_name
        # Not super(): in the dual class below that is the user's, with arguments of its own.
        Exception.__init__(self, function_name, traceback_str)

    def __str__(self) -> str:
        return (
            f"{self.function_name}() (pid={self.pid}, node={self.node_id[:8]})\n"
            f"{self.traceback_str.rstrip()}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return RayTaskError, (
            self.function_name,
            self.traceback_str,
            self.cause,
            self.pid,
            self.node_id,
            self.cause_name,
        )

    def as_instanceof_cause(self) -> RayTaskError:
        """This error as an instance of the user's class too, so that both `except` clauses work."""
        cause = self.cause
        if cause is None or isinstance(cause, RayTaskError):
            return cause if isinstance(cause, RayTaskError) else self
        if isinstance(cause, RayError):
            return self
        return _dual_error(self, cause)


def _dual_error(error: RayTaskError, cause: BaseException) -> RayTaskError:
    cause_class = type(cause)

    class TaskErrorOf(RayTaskError, cause_class):
        """Both a RayTaskError and the class the user raised."""

        def __init__(self) -> None:
            RayTaskError.__init__(
                self,
                error.function_name,
                error.traceback_str,
                cause,
                error.pid,
                error.node_id,
                error.cause_name,
            )
            self.args = cause.args or RayTaskError.__dict__.get("args", ())

        def __getattr__(self, name: str) -> Any:
            return getattr(cause, name)

        def __str__(self) -> str:
            return RayTaskError.__str__(error)

        def __reduce__(self) -> tuple[Any, ...]:
            return _rebuild_dual, (error,)

    TaskErrorOf.__name__ = f"RayTaskError({cause_class.__name__})"
    TaskErrorOf.__qualname__ = TaskErrorOf.__name__
    try:
        return TaskErrorOf()
    except TypeError:
        # Classes that insist on their own __new__ arguments cannot be combined: the plain error
        # serves.
        return error


def _rebuild_dual(error: RayTaskError) -> RayTaskError:
    return error.as_instanceof_cause()


class WorkerCrashedError(RayError):
    """The worker that ran the task ended before the task did."""

    def __init__(self, message: str = "", node_id: str = "", cause: str = "WORKER_DIED") -> None:
        self.node_id = node_id
        self.cause = ActorDeathCause[cause]
        super().__init__(message or "The worker died unexpectedly while it ran this task.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.node_id, self.cause.name)


class NodeDiedError(WorkerCrashedError):
    """The node on which the task ran died."""

    def __init__(self, message: str = "", node_id: str = "", cause: str = "NODE_DIED") -> None:
        super().__init__(message or "The node died while it ran this task.", node_id, cause)


class LocalRayletDiedError(RayError):
    """The agent this process belongs to is gone."""


class OutOfMemoryError(RayError):
    """The worker was ended because the node ran out of memory."""


class RayActorError(RayError):
    """An actor cannot answer.

    Attributes:
        actor_id: hex, None if not known.
        preempted: the loss of its node was announced.
    """

    def __init__(
        self,
        message: str = "The actor cannot answer.",
        actor_id: str | None = None,
        *,
        preempted: bool = False,
    ) -> None:
        self.actor_id = actor_id
        self.preempted = preempted
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_actor_error, (type(self), dict(self.__dict__), self.args)


class ActorDiedError(RayActorError):
    """The actor ended for good.

    Attributes:
        cause: `ActorDeathCause`.
        node_id, owner_id: hex, empty if not known.
        time: seconds since the epoch, 0 if not known.
    """

    def __init__(
        self,
        message: str = "The actor died.",
        actor_id: str | None = None,
        *,
        cause: ActorDeathCause = ActorDeathCause.UNSPECIFIED,
        node_id: str = "",
        owner_id: str = "",
        time: float = 0.0,
        preempted: bool = False,
    ) -> None:
        super().__init__(message, actor_id, preempted=preempted)
        self.cause = cause
        self.node_id = node_id
        self.owner_id = owner_id
        self.time = time


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached now (it restarts, or its node does); a later call may succeed."""


class ActorPlacementGroupRemoved(ActorDiedError):
    """The actor's placement group was removed."""


class ActorUnschedulableError(ActorDiedError):
    """The actor can never be placed as it was asked for."""


def _rebuild_actor_error(
    class_: type[RayActorError], state: dict[str, Any], args: tuple[Any, ...]
) -> RayActorError:
    error = class_.__new__(class_)
    error.args = args
    error.__dict__.update(state)
    return error


class TaskPlacementGroupRemoved(RayError):
    """The task's placement group was removed before it ran."""


class PlacementGroupRemovedError(RayError):
    """The placement group was removed: it will not become ready."""


class TaskUnschedulableError(RayError):
    """The task can never be placed as it was asked for."""


class RuntimeEnvSetupError(RayError):
    """The runtime environment could not be made."""


class ActorRuntimeEnvSetupError(ActorDiedError, RuntimeEnvSetupError):
    """The actor never started: its runtime environment could not be made."""


class PendingCallsLimitExceeded(RayError):
    """More calls wait for the actor than `max_pending_calls` allows."""


class ObjectLostError(RayError):
    """The object's value cannot be had any more.

    Attributes:
        object_id: hex.
    """

    def __init__(self, object_id: str = "", message: str = "") -> None:
        self.object_id = object_id
        super().__init__(message or f"Object {object_id} is lost.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.object_id, str(self))


class OwnerDiedError(ObjectLostError):
    """The process that owned the object is gone."""


class ObjectFreedError(ObjectLostError):
    """The object was freed while somebody still asked for it."""


class ObjectFetchTimedOutError(ObjectLostError):
    """The object could not be fetched in time."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was released although a reference was left."""


class ObjectReconstructionFailedError(ObjectLostError):
    """The object could not be made again."""


class ObjectStoreFullError(RayError):
    """There is no room for the value."""


class OutOfDiskError(RayError):
    """There is no room on disk."""


class ActorAlreadyExistsError(RayError, ValueError):
    """The name is taken; the message says by whom."""


class ActorHandleNotFoundError(RayError, ValueError):
    """No actor has this name."""


def pickle_error(error: BaseException) -> bytes:
    """Serialized form of an error; one that cannot be pickled travels as its text."""
    try:
        return serialization.dumps_by_value(error)
    except Exception as problem:  # noqa: BLE001 - user classes can raise anything while pickled
        text = f"{type(error).__name__}: {error} (the error itself cannot be pickled: {problem!r})"
        return serialization.dumps_by_value(RaySystemError(text))
