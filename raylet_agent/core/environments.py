"""Which runtime environments are made on this node, for the workers that wait for them.

The shell makes them. An environment is asked for once, however many leases wait, and let go when
the last worker of it has ended: what is on the disk stays there for the next one.
"""

from __future__ import annotations

import enum

from raylet_agent.core.effects import Effect, PrepareEnvironment, ReleaseEnvironment
from raylet_agent.core.runtime_env import environment_of


class _State(enum.Enum):
    MAKING = 1
    READY = 2


class Environments:
    """States by key (`runtime_env.canonical`). Effects go to `out`."""

    def __init__(self, out: list[Effect]) -> None:
        self._out = out
        self._states: dict[str, _State] = {}

    def __len__(self) -> int:
        return len(self._states)

    def is_ready(self, key: str) -> bool:
        """Whether a worker of it may start."""
        return self.is_plain(key) or self._states.get(key) == _State.READY

    def is_plain(self, key: str) -> bool:
        """Whether there is nothing to make for it."""
        return not environment_of(key).is_made

    def want(self, text: str, job_id: bytes, actor_id: bytes) -> None:
        """Somebody needs it: asks the shell unless that was done.

        Args:
            text: the environment as the owner gave it.
            job_id: whose packages these are.
            actor_id: of a detached actor, which may have outlived its job.
        """
        environment = environment_of(text)
        if environment.is_made and environment.key not in self._states:
            self._states[environment.key] = _State.MAKING
            order = PrepareEnvironment(environment.key, environment.timeout_s, job_id, actor_id)
            self._out.append(order)

    def made(self, key: str) -> bool:
        """The shell is done; False: nobody asked for it."""
        if key not in self._states:
            return False
        self._states[key] = _State.READY
        return True

    def failed(self, key: str) -> None:
        """It could not be made; whoever comes next tries again."""
        if self._states.get(key) == _State.MAKING:
            del self._states[key]

    def unused(self, key: str) -> None:
        """No worker of it is left and nobody waits. One that is being made is finished first."""
        if self._states.get(key) == _State.READY:
            del self._states[key]
            self._out.append(ReleaseEnvironment(key))
