"""A runtime environment as an owner sends it: packages are named by content, nothing is a path."""

from __future__ import annotations

import functools
import json
from typing import cast

import msgspec

from cluster_common import limits as common_limits
from cluster_common import runtime_packages
from cluster_common.runtime_packages import Package

ALLOWED_KEYS = (
    "config",
    "env_vars",
    "pip",
    "py_modules",
    "uv",
    "worker_process_setup_hook",
    "working_dir",
)
_PARSED_MAX = 1_024
_NEVER_S = -1


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """What installs packages into a virtual environment, and what. `local`: hash of local sources.

    `variables`: of the environment that the tool itself reads.
    """

    name: str
    packages: tuple[str, ...]
    options: tuple[str, ...] = ()
    version: str = ""
    check: bool = False
    local: str = ""
    variables: dict[str, str] = {}

    @property
    def requirements(self) -> list[str]:
        """The packages without options, for messages."""
        return [line for line in self.packages if not line.startswith("-")] or list(self.packages)


class Environment(msgspec.Struct, frozen=True):
    """What a worker is to find. `key`: equal for environments that are the same to a worker."""

    key: str = ""
    variables: dict[str, str] = {}
    working_dir: Package | None = None
    modules: tuple[Package, ...] = ()
    tool: Tool | None = None
    setup_hook: str = ""
    timeout_s: float = common_limits.ENVIRONMENT_SETUP_S_DEFAULT

    @property
    def packages(self) -> tuple[Package, ...]:
        """All of them, in order of the search path."""
        first = () if self.working_dir is None else (self.working_dir,)
        return (*first, *self.modules)

    @property
    def is_made(self) -> bool:
        """Whether something must be made on the node before a worker of it can start."""
        return self.tool is not None or bool(self.packages)


NONE = Environment()


@functools.lru_cache(maxsize=_PARSED_MAX)
def environment_of(text: str) -> Environment:
    """The environment of a JSON text.

    Raises:
        ValueError: not an object, an unknown key, or a wrong value; names it.
    """
    if not text:
        return NONE
    try:
        loaded: object = json.loads(text)
    except ValueError as error:
        raise ValueError(f"runtime environment: it is not JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise ValueError("runtime environment: it must be a JSON object")  # noqa: TRY004 - a wrong value of an option, reported as such
    fields = cast("dict[str, object]", loaded)
    unknown = sorted(set(fields) - set(ALLOWED_KEYS))
    if unknown:
        allowed = ", ".join(ALLOWED_KEYS)
        raise ValueError(
            f"runtime environment: {', '.join(unknown)} not supported; allowed: {allowed}"
        )
    variables = _variables(fields.get("env_vars") or {})
    working_dir = fields.get("working_dir")
    modules: object = fields.get("py_modules", [])
    if not isinstance(modules, list):
        raise ValueError("runtime environment: py_modules must be a list")  # noqa: TRY004 - a wrong value of an option, reported as such
    hook = fields.get("worker_process_setup_hook") or ""
    if not isinstance(hook, str):
        raise ValueError("runtime environment: worker_process_setup_hook must be text")  # noqa: TRY004 - a wrong value of an option, reported as such
    made = Environment(
        key="",
        variables=variables,
        working_dir=None if working_dir is None else _package("working_dir", working_dir),
        modules=tuple(_package("py_modules", each) for each in cast("list[object]", modules)),
        tool=_tool(fields, variables),
        setup_hook=hook,
        timeout_s=_timeout_s(fields.get("config") or {}),
    )
    return msgspec.structs.replace(made, key=_key(fields))


def canonical(text: str) -> str:
    """The key by which workers are reused: an environment that changes nothing is none."""
    return environment_of(text).key


def _key(fields: dict[str, object]) -> str:
    """How long it may take to make it makes no difference to a worker."""
    felt = {name: value for name, value in fields.items() if value and name != "config"}
    return json.dumps(felt, sort_keys=True) if felt else ""


def _variables(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("runtime environment: env_vars must be an object")  # noqa: TRY004 - a wrong value of an option, reported as such
    result: dict[str, str] = {}
    for name, text in cast("dict[str, object]", value).items():
        if not isinstance(text, str) or not name or "=" in name or "\0" in name + text:
            raise ValueError(f"runtime environment: env_vars[{name!r}] must be text without NUL")
        result[name] = text
    return result


def _package(field: str, value: object) -> Package:
    if not isinstance(value, str):
        raise ValueError(f"runtime environment: {field} must name a package, not {value!r}")  # noqa: TRY004 - a wrong value of an option, reported as such
    try:
        return runtime_packages.parse_uri(value)
    except ValueError as error:
        raise ValueError(f"runtime environment: {field}: {error}") from None


def _tool(fields: dict[str, object], variables: dict[str, str]) -> Tool | None:
    named = [name for name in ("pip", "uv") if fields.get(name)]
    if len(named) > 1:
        raise ValueError("runtime environment: give pip or uv, not both")
    if not named:
        return None
    name = named[0]
    value = fields[name]
    if isinstance(value, list):
        value = cast("object", {"packages": value})
    if not isinstance(value, dict):
        raise ValueError(f"runtime environment: {name} must be an object with packages")  # noqa: TRY004 - a wrong value of an option, reported as such
    given = cast("dict[str, object]", value)
    options = f"{name}_install_options" if name == "pip" else "uv_pip_install_options"
    prefix = f"{name.upper()}_"
    read = {key: text for key, text in variables.items() if key.upper().startswith(prefix)}
    return Tool(
        name=name,
        packages=_texts(name, "packages", given.get("packages") or []),
        options=_texts(name, options, given.get(options) or []),
        version=str(given.get(f"{name}_version") or ""),
        check=bool(given.get(f"{name}_check")),
        local=str(given.get("_local") or ""),
        variables=read,
    )


def _texts(name: str, field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"runtime environment: {name} {field} must be a list of text")  # noqa: TRY004 - a wrong value of an option, reported as such
    texts = cast("list[object]", value)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"runtime environment: {name} {field} must be a list of text")
    return tuple(cast("list[str]", texts))


def _timeout_s(config: object) -> float:
    if not isinstance(config, dict):
        raise ValueError("runtime environment: config must be an object")  # noqa: TRY004 - a wrong value of an option, reported as such
    given = cast("dict[str, object]", config).get("setup_timeout_seconds")
    if given is None:
        return common_limits.ENVIRONMENT_SETUP_S_DEFAULT
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise ValueError(f"runtime environment: setup_timeout_seconds {given!r} is no number")  # noqa: TRY004 - a wrong value of an option, reported as such
    return float("inf") if given == _NEVER_S else float(given)
