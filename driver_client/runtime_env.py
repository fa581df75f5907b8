"""`RuntimeEnv` and `RuntimeEnvConfig`: dicts that check themselves, for Ray's programs."""

from __future__ import annotations

import copy
import json
from typing import Any, ClassVar, Self

from driver_client.core import runtime_env_rules as rules


class RuntimeEnvConfig(dict[str, Any]):
    """How an environment is made.

    Args:
        setup_timeout_seconds: how long it may take; -1 without a limit.
        eager_install: begin at `init`, before the first task.
    """

    known_fields: ClassVar[set[str]] = set(rules.CONFIG_FIELDS)

    def __init__(
        self,
        setup_timeout_seconds: int = 600,
        eager_install: bool = True,  # noqa: FBT001, FBT002 - Ray's signature
    ) -> None:
        fields: dict[str, Any] = {
            "setup_timeout_seconds": setup_timeout_seconds,
            "eager_install": eager_install,
        }
        rules.check("runtime_env", {"config": fields})
        super().__init__(fields)

    def to_dict(self) -> dict[str, Any]:
        """A plain dict."""
        return dict(self)


class RuntimeEnv(dict[str, Any]):
    """A runtime environment; anything that takes one takes a plain dict as well.

    Args:
        working_dir: a folder or .zip file; workers start in a copy of it.
        py_modules: folders, .py or .whl files, or imported modules, for workers to import.
        pip: requirements, the path of a requirements file, or a dict with `packages`.
        uv: the same, installed by uv.
        env_vars: `${NAME}` in a value stands for the node's own variable.
        excludes: patterns of files that packages leave out, as in .gitignore.
        worker_process_setup_hook: a function (or "module.function") each worker runs first.
        config: `RuntimeEnvConfig` or a dict.
        _validate: check the fields now.
        **other: refused, unless they are None.
    """

    known_fields: ClassVar[set[str]] = set(rules.FIELDS)

    def __init__(
        self,
        *,
        working_dir: Any = None,
        py_modules: Any = None,
        pip: Any = None,
        uv: Any = None,
        env_vars: dict[str, str] | None = None,
        excludes: list[str] | None = None,
        worker_process_setup_hook: Any = None,
        config: dict[str, Any] | None = None,
        _validate: bool = True,
        **other: Any,
    ) -> None:
        fields: dict[str, Any] = {
            "working_dir": working_dir,
            "py_modules": py_modules,
            "pip": pip,
            "uv": uv,
            "env_vars": env_vars,
            "excludes": excludes,
            "worker_process_setup_hook": worker_process_setup_hook,
            "config": config,
            **other,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        if _validate:
            rules.check("runtime_env", given)
        super().__init__(given)

    def __setitem__(self, name: str, value: Any) -> None:
        rules.check("runtime_env", {name: value})
        super().__setitem__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (dict(self),)

    def set(self, name: str, value: Any) -> None:
        """Sets one field."""
        self[name] = value

    def to_dict(self) -> dict[str, Any]:
        """A plain copy."""
        return copy.deepcopy(dict(self))

    def serialize(self) -> str:
        """As JSON."""
        return json.dumps(self, sort_keys=True)

    @classmethod
    def deserialize(cls, text: str) -> Self:
        """From JSON."""
        return cls(_validate=False, **json.loads(text or "{}"))

    def env_vars(self) -> dict[str, str]:
        """Its variables."""
        return self.get("env_vars") or {}

    def working_dir(self) -> str:
        """Its working directory, "" if it has none."""
        return str(self.get("working_dir") or "")

    working_dir_uri = working_dir

    def has_working_dir(self) -> bool:
        """Whether it has a working directory."""
        return bool(self.get("working_dir"))

    def py_modules(self) -> list[Any]:
        """Its modules."""
        return list(self.get("py_modules") or [])

    py_modules_uris = py_modules

    def has_pip(self) -> bool:
        """Whether pip installs something for it."""
        return bool(self.get("pip"))

    def pip_config(self) -> Any:
        """What pip installs."""
        return self.get("pip") or {}

    def has_uv(self) -> bool:
        """Whether uv installs something for it."""
        return bool(self.get("uv"))

    def uv_config(self) -> Any:
        """What uv installs."""
        return self.get("uv") or {}


def _rebuild(fields: dict[str, Any]) -> RuntimeEnv:
    return RuntimeEnv(_validate=False, **fields)
