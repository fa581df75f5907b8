"""What `get` raises when user code raised: the task's error and the user's class at once."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Self

from driver_client.base_errors import RayError


class RayTaskError(RayError):
    """User code raised. What `get` raises is this and the user's class at once.

    Attributes:
        function_name: the remote function or method.
        traceback_str: the traceback as it was where the code ran.
        cause: the original exception, when it could be pickled.
        proctitle, pid, ip, node_id: where it ran, as far as that is known.
        actor_id, actor_repr: of the actor whose method it was, else empty.
    """

    def __init__(
        self,
        function_name: str = "",
        traceback_str: str = "",
        cause: BaseException | None = None,
        proctitle: str | None = None,
        pid: int | None = None,
        ip: str | None = None,
        actor_repr: str | None = None,
        actor_id: str | None = None,
        *,
        node_id: str = "",
        cause_name: str = "",
    ) -> None:
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.proctitle = proctitle or function_name
        self.pid = pid or os.getpid()
        self.ip = ip or ""
        self.actor_repr = actor_repr or ""
        self.actor_id = actor_id or ""
        self.node_id = node_id
        self.cause_name = cause_name
        # Not super(): in the dual class below that is the user's, with arguments of its own.
        Exception.__init__(self, function_name, traceback_str)

    def __str__(self) -> str:
        facts = (
            ("pid", self.pid),
            ("ip", self.ip),
            ("node", self.node_id[:8]),
            ("actor_id", self.actor_id),
            ("repr", self.actor_repr),
        )
        where = ", ".join(f"{name}={value}" for name, value in facts if value)
        return f"{self.function_name}() ({where})\n{self.traceback_str.rstrip()}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (_facts_of(self),)

    def as_instanceof_cause(self) -> RayTaskError:
        """This error as an instance of the user's class too, so that both `except` clauses work."""
        cause = self.cause
        if cause is None or isinstance(cause, RayTaskError):
            return cause if isinstance(cause, RayTaskError) else self
        if isinstance(cause, RayError):
            return self
        try:
            return _dual_error(self, cause)
        except Exception:  # noqa: BLE001 - a class of the user may refuse in any way to be joined
            return self


def _dual_error(error: RayTaskError, cause: BaseException) -> RayTaskError:
    cause_class = type(cause)

    class DualError(RayTaskError, cause_class):
        """Both a RayTaskError and the class the user raised."""

        def __new__(cls) -> Self:
            # What the cause was made with: classes that insist on arguments (groups) get them.
            return cause_class.__new__(cls, *cause.args)

        def __init__(self) -> None:
            Exception.__init__(self, error.function_name, error.traceback_str)
            self.cause = cause
            for name, value in _facts_of(error).items():
                if not hasattr(cause, name):  # the user's own are what the user reads
                    setattr(self, name, value)
            with suppress(AttributeError):  # a class may have `args` of its own
                self.args = cause.args

        def __getattr__(self, name: str) -> Any:
            return getattr(cause, name)

        def __str__(self) -> str:
            return RayTaskError.__str__(error)

        def __reduce__(self) -> tuple[Any, ...]:
            return _rebuild_dual, (error,)

    DualError.__name__ = f"RayTaskError({cause_class.__name__})"
    DualError.__qualname__ = DualError.__name__
    return DualError()


_FACTS = (
    "function_name",
    "traceback_str",
    "cause",
    "proctitle",
    "pid",
    "ip",
    "actor_repr",
    "actor_id",
    "node_id",
    "cause_name",
)


def _facts_of(error: RayTaskError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in _FACTS}


def _rebuild(facts: dict[str, Any]) -> RayTaskError:
    return RayTaskError(**facts)


def _rebuild_dual(error: RayTaskError) -> RayTaskError:
    return error.as_instanceof_cause()
