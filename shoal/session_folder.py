"""The folder of one cluster session on this machine: port files and logs.

<temp_dir>/<session_name>/
    logs/           stderr of every process, output of workers
    ports/          where each process answers, written by the process once it does
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path

TEMP_DIR_VARIABLE = "SHOAL_TEMP_DIR"
_numbers = itertools.count(1)


def default_temp_dir() -> Path:
    """`SHOAL_TEMP_DIR`, else `shoal-<uid>` in the system's folder for temporary files.

    The user's number keeps two users of one machine apart.
    """
    stated = os.environ.get(TEMP_DIR_VARIABLE)
    return Path(stated) if stated else Path(tempfile.gettempdir()) / f"shoal-{os.getuid()}"


def new_session_name() -> str:
    """A name nobody else has: time, process and some dice."""
    return f"session_{time.strftime('%Y%m%d_%H%M%S')}_{os.getpid()}_{secrets.token_hex(3)}"


class SessionFolder:
    """Paths of one session. Making it creates the folders, readable by this user only."""

    def __init__(self, temp_dir: Path | None = None, session_name: str | None = None) -> None:
        self.temp_dir = temp_dir or default_temp_dir()
        self.session_name = session_name or new_session_name()
        self.path = self.temp_dir / self.session_name
        self.logs = self.path / "logs"
        self.ports = self.path / "ports"
        self.temp_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.path, self.logs, self.ports):
            folder.mkdir(mode=0o700, exist_ok=True)

    def next_files(self, part: str) -> tuple[Path, Path]:
        """Fresh (port file, log file) for one process of `part`."""
        name = f"{part}-{os.getpid()}-{next(_numbers)}"
        return self.ports / name, self.logs / f"{name}.err"

    def remove(self) -> None:
        """Deletes the session's folder, and the temp dir when it is empty then."""
        shutil.rmtree(self.path, ignore_errors=True)
        try:
            self.temp_dir.rmdir()
        except OSError:
            return  # Another session lives there.
