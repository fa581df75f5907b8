"""`JobConfig`: what a job is given at `init`, for programs that use Ray's class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

DETACHED = "detached"
LIFETIMES = (DETACHED, "non_detached")


class JobConfig:
    """Namespace, runtime environment and defaults of a job.

    Attributes:
        code_search_path: folders in which workers look for modules first.
        runtime_env: for all work of the job.
        metadata: kept for the program's own use.
        ray_namespace: of names; None: a random one.
        default_actor_lifetime: of actors whose options say nothing: "detached" or "non_detached".
        jvm_options: kept; there is no JVM here.

    Raises:
        ValueError: an unknown lifetime.
    """

    def __init__(
        self,
        jvm_options: Sequence[str] | None = None,
        code_search_path: Sequence[str] | None = None,
        runtime_env: dict[str, Any] | None = None,
        _client_job: bool = False,  # noqa: FBT001, FBT002 - Ray's signature
        metadata: Mapping[str, str] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
        _py_driver_sys_path: Sequence[str] | None = None,
    ) -> None:
        if isinstance(code_search_path, str):
            raise TypeError(f"code_search_path is a list of folders, not {code_search_path!r}")
        self.jvm_options = list(jvm_options or ())
        self.code_search_path = [*(code_search_path or ()), *(_py_driver_sys_path or ())]
        self.runtime_env = runtime_env
        self.metadata = dict(metadata or {})
        self.ray_namespace = ray_namespace
        self.set_default_actor_lifetime(default_actor_lifetime)

    @classmethod
    def from_json(cls, job_config_json: Mapping[str, Any]) -> Self:
        """A config of plain data, as Ray's clients store it."""
        return cls(
            jvm_options=job_config_json.get("jvm_options"),
            code_search_path=job_config_json.get("code_search_path"),
            runtime_env=job_config_json.get("runtime_env"),
            metadata=job_config_json.get("metadata"),
            ray_namespace=job_config_json.get("ray_namespace"),
            default_actor_lifetime=job_config_json.get("default_actor_lifetime", "non_detached"),
        )

    def set_runtime_env(
        self,
        runtime_env: dict[str, Any] | None,
        validate: bool = False,  # noqa: FBT001, FBT002 - Ray's signature
    ) -> None:
        """Sets the runtime environment; `init` checks it, whatever `validate` is."""
        del validate
        self.runtime_env = runtime_env

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Sets the namespace."""
        self.ray_namespace = ray_namespace

    def set_metadata(self, key: str, value: str) -> None:
        """Keeps a pair for the program's own use."""
        self.metadata[key] = value

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """What actors are whose options say nothing.

        Raises:
            ValueError: neither "detached" nor "non_detached".
        """
        if default_actor_lifetime not in LIFETIMES:
            raise ValueError(
                f"default_actor_lifetime must be one of {', '.join(LIFETIMES)}, "
                f"not {default_actor_lifetime!r}"
            )
        self.default_actor_lifetime = default_actor_lifetime
