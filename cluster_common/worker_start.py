"""What an agent's fork server tells a newborn worker: the argument of the worker entry.

The entry is a function `entry(start: WorkerStart) -> None`, given to the agent by name as
`module:function`. When it is called, the process already is its own process group, its standard
output and error go to the agent's pipes, `env` is in `os.environ`, `random` is seeded anew and
signal handlers are the default ones. It was forked from a process that imported grpc and never
started it. When the entry returns, the worker exits with status 0; an exception is printed and
gives status 1.
"""

from __future__ import annotations

import msgspec


class WorkerStart(msgspec.Struct, frozen=True, gc=False):
    """Identity and surroundings of one worker process. Ids are raw bytes."""

    worker_id: bytes
    """Also its owner id for what it submits itself."""
    node_id: bytes
    agent_address: str
    """host:port of the agent; the worker dials `AgentService.WorkerLink` there."""
    gcs_address: str
    host: str
    """Interface on which the worker serves `CoreWorkerService` (port 0)."""
    session_name: str
    temp_dir: str
    env: dict[str, str] = {}
    """Variables of the runtime environment, already applied."""
    working_dir: str = ""
    """Where the worker works; already changed to."""
    module_paths: tuple[str, ...] = ()
    """In front of everything else on the module search path, already applied."""
    venv: str = ""
    """A virtual environment whose packages come next, already applied."""
    executable: str = ""
    """Start afresh with this interpreter instead of going on as a copy of the fork server."""
    entry: str = ""
    """`module:function`, for a worker that starts afresh."""
    setup_hook: str = ""
    """Run before anything else: `module.function`, or a pickled callable in base64."""


SETUP_FAILED_STATUS = 86
"""Exit status of a worker whose set-up hook raised: starting another one would not help."""

PICKLED_HOOK = "pickle:"
"""Begins a `setup_hook` that is a pickled callable."""
