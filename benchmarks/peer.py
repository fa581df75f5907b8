"""The peer's own environment: made once under the cache folder, never mixed with ours."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.part_run import PROJECT
from benchmarks.report import note
from benchmarks.work.library import LIBRARIES

CACHE = PROJECT / ".cache"
SPECIFICATION = re.compile(r"(?P<name>[a-z]+)==(?P<version>\d+(\.\d+)+)")
PEERS = tuple(name for name in LIBRARIES if name != "shoal")
ALSO_NEEDED = ("psutil",)


def library_name(specification: str) -> str:
    """The library in `name==version`.

    Raises:
        ValueError: not of that form, or no library this comparison can drive.
    """
    match = SPECIFICATION.fullmatch(specification)
    if match is None or match["name"] not in PEERS:
        allowed = ", ".join(f"{name}==VERSION" for name in PEERS)
        raise ValueError(f"peer {specification!r} is not understood; allowed: {allowed}")
    return match["name"]


def interpreter(specification: str) -> str:
    """The interpreter of an environment with the peer installed; installs it at first use."""
    folder = CACHE / f"peer-{specification.replace('==', '-')}"
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    if not stamp.exists():
        note(f"installing {specification} into {folder.relative_to(PROJECT)} …")
        venv.create(folder, with_pip=True, clear=True)
        _install(python, specification)
        stamp.touch()
    return str(python)


def _install(python: Path, specification: str) -> None:
    command = [str(python), "-m", "pip", "install", "-q", specification, *ALSO_NEEDED]
    # pip's words go where the notes go; stdout is for figures.
    subprocess.run(command, check=True, stdout=sys.stderr)
