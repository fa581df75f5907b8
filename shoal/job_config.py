"""`JobConfig`: what a job is given at `init`, for programs that use Ray's class."""

from __future__ import annotations

from typing import Any


class JobConfig:
    """Namespace and runtime environment of a job.

    Attributes:
        ray_namespace: of names; None: a random one.
        runtime_env: for all work of the job.
        metadata: kept for the program's own use.
    """

    def __init__(
        self,
        runtime_env: dict[str, Any] | None = None,
        metadata: dict[str, str] | None = None,
        ray_namespace: str | None = None,
    ) -> None:
        self.runtime_env = runtime_env
        self.metadata = dict(metadata or {})
        self.ray_namespace = ray_namespace

    def set_runtime_env(self, runtime_env: dict[str, Any] | None) -> None:
        """Sets the runtime environment."""
        self.runtime_env = runtime_env

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Sets the namespace."""
        self.ray_namespace = ray_namespace

    def set_metadata(self, key: str, value: str) -> None:
        """Keeps a pair for the program's own use."""
        self.metadata[key] = value
