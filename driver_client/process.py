"""The runtime of this process, for the API objects that users hold."""

from __future__ import annotations

from collections.abc import Callable

from driver_client.base_errors import NotConnectedError
from driver_client.shell.runtime import Runtime

_runtime: Runtime | None = None

auto_init: Callable[[], None] | None = None
"""Set by the public package: connects on first use (RAY_FACTS C1)."""


def set_runtime(runtime: Runtime | None) -> None:
    """Makes a runtime the process's own."""
    global _runtime  # noqa: PLW0603 - one runtime per process, set at connection and shutdown
    _runtime = runtime


def runtime_if_any() -> Runtime | None:
    """The runtime, or None before `init`."""
    return _runtime


def get_runtime() -> Runtime:
    """The runtime; connects first where `init` was not called yet.

    Raises:
        RuntimeError: not connected and no automatic connection is possible.
    """
    if _runtime is None and auto_init is not None:
        auto_init()
    if _runtime is None:
        raise RuntimeError("not connected: call shoal.init() first")
    return _runtime


def connected_runtime() -> Runtime:
    """The runtime, for calls that do not connect by themselves.

    Raises:
        NotConnectedError: `init` was not called (a RuntimeError and a RaySystemError).
    """
    if _runtime is None:
        raise NotConnectedError("not connected: call shoal.init() first")
    return _runtime


def is_initialized() -> bool:
    """Whether this process has a runtime."""
    return _runtime is not None
