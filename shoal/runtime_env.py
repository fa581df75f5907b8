"""Runtime environments of jobs, tasks and actors: `RuntimeEnv`, `RuntimeEnvConfig`."""

from __future__ import annotations

from driver_client.runtime_env import RuntimeEnv, RuntimeEnvConfig

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]
