"""How an actor's own code ends it: what `exit_actor` does, and what user code does at the end."""

from __future__ import annotations

import asyncio
import atexit
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from driver_client.shell import running

CALL_TASK = "call"
"""Name of the asyncio task that is a call, to tell it from tasks that user code started."""

asked: dict[bytes, str] = {}
"""Calls (task ids) that asked for their actor's end, and the reasons: code that catches what
`exit_actor` raises must not keep the actor."""

leave: Callable[[str], None] | None = None
"""Set by the worker: ends this process in order."""


class ActorExit(BaseException):
    """Raised by `exit_actor` in coroutines, and by `__ray_terminate__`."""


class ActorThreadExit(ActorExit, SystemExit):
    """Raised by `exit_actor` outside coroutines: code that cleans up at `SystemExit` sees it.

    Not in coroutines: an event loop stops at a `SystemExit`.
    """


def leave_actor(reason: str) -> NoReturn:
    """Ends the actor after the call that asks; beside calls (own threads and tasks) at once."""
    call = running.current.get()
    task = _task()
    if call is None or (task is not None and task.get_name() != CALL_TASK):
        assert leave is not None, "the worker set it before it ran anything"
        leave(reason)
    else:
        asked[call.task_id] = reason
    raise (ActorThreadExit if task is None else ActorExit)(reason)


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return None


def obey(call: running.Running, *, is_sync_method: bool) -> None:
    """What somebody wants of a call that returned counts more than its value.

    Raises:
        ActorExit: it called `exit_actor` and caught what that raises.
        KeyboardInterrupt: it was cancelled, and no signal could say so.
    """
    reason = asked.get(call.task_id)
    if reason is not None:
        raise ActorExit(reason)
    if is_sync_method and call.task_id in running.cancelled:
        raise KeyboardInterrupt("the call was cancelled")


def run_last_code(instance: object) -> None:
    """`__ray_shutdown__` of the actor; an error in it is printed and changes nothing."""
    shutdown = getattr(instance, "__ray_shutdown__", None)
    if shutdown is None:
        return
    try:
        shutdown()
    except BaseException:  # noqa: BLE001 - user code may raise anything, and the process ends anyway
        traceback.print_exc(file=sys.stderr)


def run_exit_handlers() -> None:
    """What user code registered with `atexit`: a child ends without the interpreter's own end."""
    atexit._run_exitfuncs()  # noqa: SLF001 - the only way to run them  # pyright: ignore[reportPrivateUsage]
