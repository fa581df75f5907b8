"""Runtime environments as users write them: which fields, what they may be, how they merge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from types import ModuleType
from typing import Any

from driver_client.core.shapes import is_dict, is_list

FIELDS = (
    "config",
    "env_vars",
    "excludes",
    "pip",
    "py_modules",
    "uv",
    "worker_process_setup_hook",
    "working_dir",
)
CONFIG_FIELDS = ("eager_install", "setup_timeout_seconds")
PIP_FIELDS = ("packages", "pip_check", "pip_install_options", "pip_version")
UV_FIELDS = ("packages", "uv_check", "uv_pip_install_options", "uv_version")
_INSTALLERS = ("pip", "uv")
_NO_TIMEOUT = -1


def check(name: str, value: Any) -> None:
    """Checks an environment before anything is done with it. None stands for a missing field.

    Raises:
        ValueError, TypeError: names the field, what was wrong and what is allowed.
    """
    if not is_dict(value):
        raise TypeError(f"{name} must be a dict or a RuntimeEnv, not {value!r}")
    for field, item in value.items():
        if field not in FIELDS:
            raise ValueError(f"{name} has no field {field!r}; allowed are {', '.join(FIELDS)}")
        if item is not None:
            _CHECKS[field](f"{name} {field}", item)
    if value.get("pip") is not None and value.get("uv") is not None:
        raise ValueError(f"{name}: give pip or uv, not both: each makes the worker's environment")


def merged(parent: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    """What holds for work with `child`, submitted from where `parent` holds.

    Variables are merged one by one, every other field of the child replaces the parent's; pip and
    uv replace each other.
    """
    result = {**parent, **child}
    for field, other in (_INSTALLERS, _INSTALLERS[::-1]):
        if child.get(field) and not child.get(other):
            result.pop(other, None)
    variables = {**parent.get("env_vars", {}), **child.get("env_vars", {})}
    if variables:
        result["env_vars"] = variables
    return result


def _env_vars(name: str, value: Any) -> None:
    if not is_dict(value):
        raise TypeError(f"{name} must be a dict of text to text, not {value!r}")
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, str):
            raise TypeError(f"{name} must map text to text, not {key!r}: {item!r}")
        if not key or "=" in key or "\0" in key + item:
            raise ValueError(f"{name}: {key!r} is not a name, or its value has a NUL")


def _path(name: str, value: Any) -> None:
    if not isinstance(value, (str, PurePath)):
        raise TypeError(f"{name} must be the path of a folder or a .zip file, not {value!r}")
    text = str(value)
    scheme, separator, _ = text.partition("://")
    if not text:
        raise ValueError(f"{name} must not be empty")
    if separator and scheme != "package":
        raise ValueError(
            f"{name}: {scheme}:// is not offered; allowed are a local folder and a local file"
        )


def _modules(name: str, value: Any) -> None:
    if not is_list(value):
        raise TypeError(f"{name} must be a list of folders, .py, .whl files or modules")
    for item in value:
        if not isinstance(item, ModuleType):
            _path(f"{name} item", item)


def _texts(name: str, value: Any) -> None:
    if not is_list(value) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{name} must be a list of text, not {value!r}")


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} must be a text, not {value!r}")


def _flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def _installer(fields: tuple[str, ...]) -> Any:
    def checker(name: str, value: Any) -> None:
        if isinstance(value, (str, PurePath)):
            return
        if is_list(value):
            _texts(name, value)
            return
        if not is_dict(value):
            raise TypeError(
                f"{name} must be a list of requirements, the path of a requirements file, or a "
                f"dict of {', '.join(fields)}, not {value!r}"
            )
        for field, item in value.items():
            if field not in fields:
                raise ValueError(f"{name} has no field {field!r}; allowed are {', '.join(fields)}")
            if field == "packages" and not isinstance(item, (str, PurePath)):
                _texts(f"{name} packages", item)
            elif field.endswith("_options"):
                _texts(f"{name} {field}", item)
            elif field.endswith("_check"):
                _flag(f"{name} {field}", item)
            elif field.endswith("_version"):
                _version(f"{name} {field}", item)
        if value.get("packages") is None:
            raise ValueError(f"{name} must have packages, got {value!r}")

    return checker


def _version(name: str, value: Any) -> None:
    _text(name, value)
    if value[0] not in "=<>!~":
        raise ValueError(f"{name} must be a specifier such as '==24.0', not {value!r}")


def _config(name: str, value: Any) -> None:
    if not is_dict(value):
        raise TypeError(f"{name} must be a dict or a RuntimeEnvConfig, not {value!r}")
    for field, item in value.items():
        if field not in CONFIG_FIELDS:
            allowed = ", ".join(CONFIG_FIELDS)
            raise ValueError(f"{name} has no field {field!r}; allowed are {allowed}")
        if field == "eager_install":
            _flag(f"{name} {field}", item)
            continue
        if isinstance(item, bool) or not isinstance(item, int):
            raise TypeError(f"{name} {field} must be a whole number of seconds, not {item!r}")
        if item <= 0 and item != _NO_TIMEOUT:
            raise ValueError(f"{name} {field} must be above 0, or -1 for no limit, not {item}")


def _hook(name: str, value: Any) -> None:
    if callable(value):
        return
    if not isinstance(value, str) or "." not in value.strip("."):
        raise TypeError(f"{name} must be a function or 'module.function', not {value!r}")


_CHECKS: dict[str, Any] = {
    "config": _config,
    "env_vars": _env_vars,
    "excludes": _texts,
    "pip": _installer(PIP_FIELDS),
    "py_modules": _modules,
    "uv": _installer(UV_FIELDS),
    "worker_process_setup_hook": _hook,
    "working_dir": _path,
}
