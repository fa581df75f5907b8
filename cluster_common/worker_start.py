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
