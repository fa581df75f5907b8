"""Errors of calls whose actor cannot answer. Constructors take what Ray's take, in that order."""

from __future__ import annotations

import enum

from driver_client.base_errors import RayError, ToldError
from driver_client.task_error import RayTaskError


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


class RayActorError(RayError):
    """An actor cannot answer.

    Attributes:
        actor_id: hex, None if not known.
        actor_init_failed: whether its constructor raised.
        preempted: the loss of its node was announced.
    """

    default = "The actor cannot answer."

    def __init__(
        self,
        actor_id: str | None = None,
        error_msg: str | None = None,
        actor_init_failed: bool = False,  # noqa: FBT001, FBT002 - Ray's programs give it by position
        preempted: bool = False,  # noqa: FBT001, FBT002 - same
    ) -> None:
        self.actor_id = actor_id
        self.actor_init_failed = actor_init_failed
        self.preempted = preempted
        super().__init__(self.default if error_msg is None else error_msg)

    @property
    def error_msg(self) -> str:
        """The text."""
        return str(self)


class ActorDiedError(RayActorError):
    """The actor ended for good.

    Args:
        cause: why: one of `ActorDeathCause`, the error that its constructor raised, or a text.
        message: the text; made from the cause if it is not given.

    Attributes:
        cause: `ActorDeathCause`.
        node_id, owner_id: hex, empty if not known.
        time: seconds since the epoch, 0 if not known.
    """

    default = "The actor died."

    def __init__(
        self,
        cause: ActorDeathCause | RayTaskError | str | None = None,
        actor_id: str | None = None,
        *,
        message: str | None = None,
        node_id: str = "",
        owner_id: str = "",
        time: float = 0.0,
    ) -> None:
        if isinstance(cause, RayTaskError):
            message = f"{self.default} Its constructor raised:\n{cause}"
            actor_id = actor_id or cause.actor_id or None
            cause = ActorDeathCause.CREATION_FAILED
        elif isinstance(cause, str):
            message, cause = cause, None
        self.cause = cause or ActorDeathCause.UNSPECIFIED
        self.node_id = node_id
        self.owner_id = owner_id
        self.time = time
        super().__init__(
            actor_id,
            message,
            self.cause is ActorDeathCause.CREATION_FAILED,
            self.cause is ActorDeathCause.PREEMPTED,
        )

    @property
    def error_message(self) -> str:
        """The text."""
        return str(self)

    @classmethod
    def from_task_error(cls, task_error: RayTaskError) -> ActorDiedError:
        """What later calls of an actor raise whose constructor raised this."""
        return cls(task_error)


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached now (it restarts, or its node does); a later call may succeed."""

    default = "The actor cannot be reached now."

    def __init__(
        self, error_message: str | None = None, actor_id: str | bytes | None = None
    ) -> None:
        known = actor_id.hex() if isinstance(actor_id, bytes) else actor_id
        super().__init__(known, error_message)


class ActorPlacementGroupRemoved(ActorDiedError):
    """The actor's placement group was removed."""

    default = "The actor's placement group was removed."


class ActorUnschedulableError(ActorDiedError):
    """The actor can never be placed as it was asked for."""

    default = "The actor can never be placed."


class RuntimeEnvSetupError(ToldError):
    """The runtime environment could not be made."""

    default = "The runtime environment could not be made."


class ActorRuntimeEnvSetupError(ActorDiedError, RuntimeEnvSetupError):
    """The actor never started: its runtime environment could not be made."""

    default = "The actor's runtime environment could not be made."
