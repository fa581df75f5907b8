"""An environment as a user wrote it becomes what travels: packages by content, no local paths."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from cluster_common import limits as common_limits
from cluster_common import runtime_packages
from cluster_common.worker_start import PICKLED_HOOK
from driver_client.core import runtime_env_rules as rules
from driver_client.core.shapes import is_dict, is_list
from driver_client.objects import serialization
from driver_client.shell import requirement_lists
from driver_client.shell.package_archives import LocalPackage, PackageArchives


class PackedEnvironment(msgspec.Struct, frozen=True):
    """Fields that can travel, and the packages that must be where workers are."""

    fields: dict[str, Any]
    packages: tuple[LocalPackage, ...] = ()

    def text(self, parent: str = "") -> str:
        """As JSON, over what holds where it is submitted from; "" for none.

        Raises:
            ValueError: it is too large.
        """
        fields = rules.merged(json.loads(parent or "{}"), self.fields)
        text = json.dumps(fields, sort_keys=True) if fields else ""
        most = common_limits.ENVIRONMENT_TEXT_BYTES_MAX
        if len(text) > most:
            raise ValueError(
                f"the runtime environment has {len(text)} bytes as JSON; at most {most} are "
                "allowed: files belong in working_dir or py_modules"
            )
        return text


def pack(environment: Mapping[str, Any], archives: PackageArchives) -> PackedEnvironment:
    """Packs what is local. May take a while for large folders; any thread.

    Raises:
        ValueError, TypeError: a field is wrong, a path does not exist; names it.
        RuntimeEnvSetupError: a package is too large.
    """
    rules.check("runtime_env", environment)
    fields = {name: value for name, value in environment.items() if value is not None}
    excludes: list[str] = list(fields.pop("excludes", ()))
    packages: list[LocalPackage] = []

    def named(made: LocalPackage | str) -> str:
        if isinstance(made, str):
            return made
        packages.append(made)
        return made.package.uri

    if "working_dir" in fields:
        fields["working_dir"] = named(_working_dir(fields["working_dir"], excludes, archives))
    if "py_modules" in fields:
        fields["py_modules"] = [
            named(_module(item, excludes, archives)) for item in fields["py_modules"]
        ]
    for name in ("pip", "uv"):
        if name in fields:
            fields[name] = _installer(name, fields[name])
    hook = fields.get("worker_process_setup_hook")
    if callable(hook):
        pickled = base64.b64encode(serialization.dumps_by_value(hook)).decode()
        fields["worker_process_setup_hook"] = PICKLED_HOOK + pickled
    kept = {name: _jsonable(value) for name, value in fields.items() if value}
    return PackedEnvironment(kept, tuple(packages))


def _jsonable(value: Any) -> Any:
    return dict(value) if is_dict(value) else value


def _working_dir(value: Any, excludes: list[str], archives: PackageArchives) -> LocalPackage | str:
    if runtime_packages.is_uri(str(value)):
        return runtime_packages.parse_uri(str(value)).uri
    path = Path(value).expanduser().resolve()
    if path.is_dir():
        return archives.pack_folder(path, excludes, "")
    if path.is_file() and path.suffix == ".zip":
        return archives.take_file(path)
    raise ValueError(f"runtime_env working_dir {path} is neither a folder nor a .zip file")


def _module(value: Any, excludes: list[str], archives: PackageArchives) -> LocalPackage | str:
    if isinstance(value, ModuleType):
        value = _module_path(value)
    if runtime_packages.is_uri(str(value)):
        return runtime_packages.parse_uri(str(value)).uri
    path = Path(value).expanduser().resolve()
    if path.is_dir():
        return archives.pack_folder(path, excludes, path.name)
    if path.is_file() and path.suffix == ".py":
        return archives.pack_module(path)
    if path.is_file() and path.suffix in (".whl", ".zip"):
        return archives.take_file(path)
    raise ValueError(
        f"runtime_env py_modules: {path} is neither a folder nor a .py, .whl or .zip file"
    )


def _module_path(module: ModuleType) -> str:
    folders = list(getattr(module, "__path__", ()))
    if len(folders) > 1:
        raise ValueError(
            f"runtime_env py_modules: {module.__name__} lies in {len(folders)} folders; name them"
        )
    path = folders[0] if folders else getattr(module, "__file__", None)
    if not path:
        raise ValueError(f"runtime_env py_modules: {module.__name__} has no file")
    return path


def _installer(name: str, value: Any) -> dict[str, Any] | None:
    given: dict[str, Any] = dict(value) if is_dict(value) else {"packages": value}
    packages = given["packages"]
    if is_list(packages) and "_local" in given:
        return given  # it was packed before: the environment of a worker, handed on
    lines = requirement_lists.requirements(f"runtime_env {name}", packages)
    if not lines:
        return None
    local = requirement_lists.local_print(lines)
    return {**given, "packages": lines, "_local": local}
