"""Workers that start as a new interpreter instead of going on as a copy of the fork server.

For environments that bring another version of what the fork server has imported already, and for
variables that a process reads at its start only (docs/adr/0007). Process id, group, output and the
signal at the parent's death stay as they are over the exec.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from cluster_common.worker_start import WorkerStart
from raylet_agent.shell import venv_folder, worker_birth

_AT_START = ("LD_", "PYTHON", "MALLOC_", "GLIBC_")
"""Beginnings of names of variables that only count when they are there at the start."""

_BOOT = (
    "import json, sys; front, rest = json.loads(sys.argv[2]); sys.path[:0] = front; "
    "sys.path += [p for p in rest if p not in sys.path]; "
    "from raylet_agent.shell import fresh_worker; fresh_worker.main(int(sys.argv[1]))"
)


def counts_at_start(name: str) -> bool:
    """Whether a variable comes too late for a process that runs."""
    return name.startswith(_AT_START) and name != "PYTHONPATH"


def begin(start: WorkerStart) -> NoReturn:
    """Replaces the forked child by a new interpreter."""
    letter = os.memfd_create("worker")
    os.write(letter, msgspec.msgpack.encode(start))
    os.lseek(letter, 0, os.SEEK_SET)
    os.set_inheritable(letter, True)  # noqa: FBT003 - the function's signature
    environment = dict(os.environ)
    early = {name: value for name, value in start.env.items() if counts_at_start(name)}
    environment.update(worker_birth.expanded(early))
    paths = json.dumps([list(start.module_paths), [path for path in sys.path if path]])
    command = [start.executable, "-P", "-c", _BOOT, str(letter), paths]
    os.execve(start.executable, command, environment)  # noqa: S606 - the interpreter of the environment


def main(letter: int) -> NoReturn:
    """The new interpreter: goes on where the forked child was."""
    with os.fdopen(letter, "rb") as file:
        start = msgspec.msgpack.decode(file.read(), type=WorkerStart)
    sys.argv = [""]
    module, _, function = start.entry.partition(":")
    entry = getattr(importlib.import_module(module), function)
    status = worker_birth.live(start, entry)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def executable_for(venv: str) -> str:
    """The interpreter of a virtual environment, or the agent's own."""
    return str(venv_folder.python_of(Path(venv))) if venv else sys.executable
