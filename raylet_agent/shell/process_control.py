"""Linux process facts that the standard library does not wrap."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(signal_number: int, parent_pid: int) -> None:
    """The kernel sends `signal_number` when the parent ends; at once if it already has."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal_number)


def adopt_orphans() -> None:
    """Descendants whose parent ended become our children, so that none is lost from sight."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """Process ids of the calling single-threaded process's children."""
    try:
        text = Path("/proc/self/task", str(os.getpid()), "children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(part) for part in text.split()]


def environment_value(pid: int, name: str) -> str | None:
    """A variable of another process's environment as it was at its last exec."""
    try:
        raw = Path("/proc", str(pid), "environ").read_bytes()
    except OSError:
        return None
    prefix = name.encode() + b"="
    for entry in raw.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None


def kill_group(pid: int) -> None:
    """SIGKILL to the process group that `pid` leads; nothing when there is none."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kill(pid: int) -> None:
    """SIGKILL to one process; nothing when there is none."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
