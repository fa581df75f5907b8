"""The folder of an agent's runtime environments: one for each agent process, gone with it.

<temp_dir>/<session_name>/runtime_env/<pid>-<node id>/
    packages/   archives as they came, by SHA-256
    trees/      archives unpacked
    venvs/      virtual environments
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

_NAME = "runtime_env"


def folder_of(session: Path, node_id: bytes) -> Path:
    """Of this process."""
    return session / _NAME / f"{os.getpid()}-{node_id.hex()[:12]}"


def remove(folder: Path) -> None:
    """Deletes it, and those that agents left behind which were killed."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        for left in folder.parent.iterdir():
            pid = left.name.partition("-")[0]
            if pid.isdigit() and not Path("/proc", pid).exists():
                shutil.rmtree(left, ignore_errors=True)
        folder.parent.rmdir()
