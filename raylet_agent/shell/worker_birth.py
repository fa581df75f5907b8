"""The first moments of a worker: from a copy of the fork server to a process of its own."""

from __future__ import annotations

import gc
import io
import os
import random
import re
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, cast

from cluster_common.transport import auth, faults
from cluster_common.worker_start import WorkerStart
from raylet_agent.shell import process_control, worker_surroundings
from raylet_agent.shell.fork_messages import Build

WORKER_VARIABLE = "SHOAL_WORKER_ID"
"""In the environment of a worker's children, so that strays are known by whose they are."""

_DESCRIPTORS_MAX = 4096
_REFERENCE = re.compile(r"\$\{(\w+)\}")


def be_worker(
    start: WorkerStart,
    entry: Callable[[WorkerStart], None],
    descriptors: list[int],
    parent_pid: int,
) -> int:
    """Makes the forked child a worker and runs its entry.

    Args:
        start: identity and surroundings.
        entry: what a worker does.
        descriptors: write ends of the pipes for standard output and error.
        parent_pid: the fork server.

    Returns:
        The exit status.
    """
    _stand_alone(start.worker_id, descriptors, parent_pid)
    if start.executable:
        from raylet_agent.shell import fresh_worker  # late: it continues here

        fresh_worker.begin(start)
    random.seed()
    _seed_numpy()
    gc.enable()
    return live(start, entry)


def be_builder(order: Build, descriptors: list[int], parent_pid: int) -> int:
    """Makes the forked child a builder and runs it; the exit status."""
    from raylet_agent.shell import builder  # late: few agents ever build

    _stand_alone(order.worker_id, descriptors, parent_pid)
    gc.enable()
    return builder.build(order.recipe)


def live(start: WorkerStart, entry: Callable[[WorkerStart], None]) -> int:
    """Applies the runtime environment and runs the entry; the exit status."""
    # Before the user's variables: no job can switch faults on.
    faults.forget()
    faults.active()
    os.environ.update(expanded(start.env))
    if start.env:
        auth.forget()
    worker_surroundings.apply(start)
    try:
        entry(start)
    except SystemExit as leaving:
        code = leaving.code
        return code if isinstance(code, int) else int(code is not None)
    except BaseException:  # noqa: BLE001 - the status and the traceback tell the agent
        traceback.print_exc()
        return 1
    return 0


def expanded(variables: dict[str, str]) -> dict[str, str]:
    """`${NAME}` in values stands for the node's own variable, "" when it has none (as in Ray)."""

    def own(found: re.Match[str]) -> str:
        return os.environ.get(found[1], "")

    return {name: _REFERENCE.sub(own, value) for name, value in variables.items()}


def _stand_alone(worker_id: bytes, descriptors: list[int], parent_pid: int) -> None:
    """From a part of the fork server to a process group of its own that dies with it."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process_control.die_with_parent(signal.SIGKILL, parent_pid)
    _take_streams(descriptors)
    os.environ[WORKER_VARIABLE] = worker_id.hex()


def _take_streams(descriptors: list[int]) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(descriptors[0], 1)
    os.dup2(descriptors[1], 2)
    os.closerange(3, _DESCRIPTORS_MAX)
    # New text layers: the inherited ones may have written to a file and cannot seek on a pipe.
    sys.stdout = _line_buffered(1)
    sys.stderr = _line_buffered(2)


def _line_buffered(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


def _seed_numpy() -> None:
    """Forked children would all draw the same numbers."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        cast("Any", numpy).random.seed()
