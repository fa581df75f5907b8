"""What a newborn worker is told of its runtime environment."""

from __future__ import annotations

from typing import TypedDict

from raylet_agent.core.runtime_env import environment_of
from raylet_agent.shell import fresh_worker
from raylet_agent.shell.builder import OWN_MODULES
from raylet_agent.shell.environment_store import PreparedEnvironment


class Surroundings(TypedDict):
    """Fields of `WorkerStart`."""

    env: dict[str, str]
    working_dir: str
    module_paths: tuple[str, ...]
    venv: str
    executable: str
    setup_hook: str


def worker_environment(
    key: str, prepared: PreparedEnvironment, preloaded: frozenset[str]
) -> Surroundings:
    """Fields of the order to start a worker.

    Args:
        key: the environment.
        prepared: where its parts are.
        preloaded: what a forked worker has imported already: such a module of the environment
            would never be seen, so its workers start afresh.
    """
    environment = environment_of(key)
    hidden = {
        name for name in prepared.modules & preloaded if name.partition(".")[0] not in OWN_MODULES
    }
    afresh = hidden or any(map(fresh_worker.counts_at_start, environment.variables))
    return Surroundings(
        env=environment.variables,
        working_dir=prepared.working_dir,
        module_paths=prepared.module_paths,
        venv=prepared.venv,
        executable=fresh_worker.executable_for(prepared.venv) if afresh else "",
        setup_hook=environment.setup_hook,
    )
