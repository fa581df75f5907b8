"""Errors that others build on; `driver_client.exceptions` has all of them."""

from __future__ import annotations

from typing import Any


class RayError(Exception):
    """Base of everything the runtime raises; pickled by state, whatever the constructor takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, dict(self.__dict__))


def _rebuilt(
    class_: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]
) -> BaseException:
    error = class_.__new__(class_, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ToldError(RayError):
    """An error of one text. `error_message` is Ray's name for it in some classes."""

    default = ""

    def __init__(self, error_message: str | None = None) -> None:
        super().__init__(self.default if error_message is None else error_message)

    @property
    def error_message(self) -> str:
        """The text."""
        return str(self)


class RaySystemError(RayError):
    """The runtime itself failed.

    Attributes:
        client_exc: what failed, a text or an error.
        traceback_str: where, if that is known.
    """

    def __init__(self, client_exc: object = "", traceback_str: str | None = None) -> None:
        self.client_exc = client_exc
        self.traceback_str = traceback_str
        where = f"\ntraceback: {traceback_str}" if traceback_str else ""
        super().__init__(f"{client_exc}{where}")


class NotConnectedError(RaySystemError, RuntimeError):
    """`init` was not called, and the function does not do it by itself."""


_STATUS_CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""gRPC's, by number."""


class RpcError(RayError):
    """A service could not be reached, or refused.

    Attributes:
        code: name of gRPC's status, "" if there is none.
        rpc_code: its number, None if there is none.
    """

    def __init__(self, message: str = "", code: str | int | None = "") -> None:
        if isinstance(code, int):
            known = 0 <= code < len(_STATUS_CODES)
            code = _STATUS_CODES[code] if known else "UNKNOWN"
        self.code = code or ""
        super().__init__(message)

    @property
    def rpc_code(self) -> int | None:
        """The number of `code`."""
        return _STATUS_CODES.index(self.code) if self.code in _STATUS_CODES else None

    @property
    def message(self) -> str:
        """The text."""
        return str(self)
