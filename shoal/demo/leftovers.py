"""What a session left behind: processes, files, shared memory. Empty is the only good answer."""

from __future__ import annotations

import os
import time
from pathlib import Path

MARKER_VARIABLE = "SHOAL_DEMO_MARKER"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - looked at, never written
DEADLINE_S = 5.0
LOOK_AGAIN_S = 0.02


def shared_memory_files() -> set[str]:
    """Names in the shared-memory folder now."""
    try:
        return {entry.name for entry in SHARED_MEMORY.iterdir()}
    except OSError:
        return set()


def marked_processes(marker: str) -> list[str]:
    """`pid command` of each process that carries the session's marker, this one excluded."""
    entry = f"{MARKER_VARIABLE}={marker}".encode()
    found: list[str] = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        try:
            if entry in (path / "environ").read_bytes().split(b"\0"):
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                found.append(f"process {path.name} {command}")
        except OSError:
            continue  # It ended meanwhile, or belongs to somebody else.
    return sorted(found)


def leftovers(marker: str, session_path: Path, memory_before: set[str]) -> list[str]:
    """What is still there, after giving dying processes 5 s to be reaped."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := _found(marker, session_path, memory_before)) and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_S)
    return found


def _found(marker: str, session_path: Path, memory_before: set[str]) -> list[str]:
    found = marked_processes(marker)
    if session_path.exists():
        found.append(f"folder {session_path}")
    ours = (name for name in shared_memory_files() - memory_before if "shoal" in name)
    return found + [f"shared memory {name}" for name in sorted(ours)]
