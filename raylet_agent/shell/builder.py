"""Makes parts of runtime environments on the disk, in a process of its own that may take its time.

It is forked by the fork server like a worker: single-threaded, gone with the agent, its output kept
as a log. It ends with status 0 when the result file is written; else its last words say why.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import msgspec

from cluster_common import limits as common_limits
from raylet_agent import limits
from raylet_agent.shell import venv_folder
from raylet_agent.shell.build_orders import BuildRecipe, Built, MakeVenv, UnpackArchive, result_path

OWN_MODULES = ("shoal", "driver_client", "cluster_common", "cluster_api", "raylet_agent")
_CREATE_WORKING_DIR = (
    "SHOAL_RUNTIME_ENV_CREATE_WORKING_DIR",
    "RAY_RUNTIME_ENV_CREATE_WORKING_DIR",
)


class BuildError(Exception):
    """What is wrong, for the user."""


def build(recipe: BuildRecipe) -> int:
    """Makes one thing; the exit status."""
    os.nice(limits.ENVIRONMENT_BUILD_NICENESS)
    target = Path(recipe.target)
    _remove(target)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        if isinstance(recipe, UnpackArchive):
            _unpack(recipe, target)
            modules = modules_in(target)
        else:
            modules = _make_venv(recipe, target)
    except (BuildError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        _remove(target)
        return 1
    built = Built(_size_bytes(target), tuple(sorted(modules)))
    result_path(recipe.target).write_bytes(msgspec.json.encode(built))
    return 0


def _remove(target: Path) -> None:
    result_path(str(target)).unlink(missing_ok=True)
    shutil.rmtree(target, ignore_errors=True)


# ---- archives


def _unpack(recipe: UnpackArchive, target: Path) -> None:
    if recipe.name.endswith(".whl"):
        _install_wheel(recipe, target)
        return
    try:
        with zipfile.ZipFile(recipe.archive) as archive:
            check_archive(archive.infolist(), recipe.name)
            for item in archive.infolist():
                path = archive.extract(item, target)
                mode = item.external_attr >> 16 & 0o777
                if mode and not item.is_dir():
                    Path(path).chmod(mode | 0o600)
    except zipfile.BadZipFile as error:
        raise BuildError(f"{recipe.name} is not a zip archive: {error}") from None
    target.mkdir(exist_ok=True)  # an empty archive is an empty folder


def check_archive(items: list[zipfile.ZipInfo], name: str) -> None:
    """Nothing leaves the folder, nothing fills the disk.

    Raises:
        BuildError: names what is wrong.
    """
    if len(items) > common_limits.PACKAGE_FILES_MAX:
        most = common_limits.PACKAGE_FILES_MAX
        raise BuildError(f"{name} has {len(items)} files; at most {most} are unpacked")
    size = sum(item.file_size for item in items)
    if size > common_limits.PACKAGE_UNPACKED_BYTES_MAX:
        most = common_limits.PACKAGE_UNPACKED_BYTES_MAX
        raise BuildError(f"{name} has {size} bytes unpacked; at most {most} are allowed")
    for item in items:
        parts = Path(item.filename).parts
        if Path(item.filename).is_absolute() or ".." in parts:
            raise BuildError(f"{name} has a file outside of it: {item.filename!r}")


def _install_wheel(recipe: UnpackArchive, target: Path) -> None:
    wheel = target.with_name(f"{target.name}.d") / recipe.name
    wheel.parent.mkdir(exist_ok=True)
    try:
        # pip reads the name: the package store knows it by its content only.
        shutil.copyfile(recipe.archive, wheel)
        command = [*_pip(), "install", "--no-deps", "--no-index", "--target", str(target)]
        _run([*command, str(wheel)], f"install {recipe.name}", {}, "")
    finally:
        shutil.rmtree(wheel.parent, ignore_errors=True)


# ---- virtual environments


def _make_venv(recipe: MakeVenv, target: Path) -> set[str]:
    tool = recipe.tool
    needs_own_pip = bool(tool.version) or (tool.name == "pip" and find_spec("pip") is None)
    try:
        venv_folder.make(target, with_pip=needs_own_pip)
    except subprocess.CalledProcessError as error:
        raise BuildError(
            f"this node's Python has no pip and cannot make one ({error}): install pip there, or "
            "the system's package for venv"
        ) from None
    requirements = target / "requirements.txt"
    requirements.write_text("".join(f"{line}\n" for line in tool.packages), encoding="utf-8")
    python = str(venv_folder.python_of(target))
    variables = {**tool.variables, **dict.fromkeys(_CREATE_WORKING_DIR, recipe.working_dir)}
    cwd = recipe.working_dir or str(target)
    if tool.version:
        own = [python, "-m", "pip", "install", f"{tool.name}{tool.version}"]
        _run(own, f"install {tool.name}{tool.version}", variables, cwd)
    install, check = _commands(recipe, target, python)
    what = f"install {', '.join(tool.requirements)}"
    _run([*install, "-r", str(requirements), *tool.options], what, variables, cwd)
    if tool.check:
        _run(check, f"check {', '.join(tool.requirements)}", variables, cwd)
    modules = modules_in(venv_folder.site_packages_of(target))
    replaced = modules.intersection(OWN_MODULES)
    if replaced:
        raise BuildError(
            f"the packages bring their own {', '.join(sorted(replaced))}: workers always run the "
            "Shoal of their node; take it out of the requirements"
        )
    return modules


def _commands(recipe: MakeVenv, target: Path, python: str) -> tuple[list[str], list[str]]:
    """The commands that install and that check."""
    if recipe.tool.name == "uv":
        own = target / "bin" / "uv"
        uv = [str(own)] if recipe.tool.version else _uv()
        return (
            [*uv, "pip", "install", "--python", python],
            [*uv, "pip", "check", "--python", python],
        )
    has_pip = (target / "bin" / "pip").exists()
    pip = [python, "-m", "pip"] if has_pip else [*_pip(), "--python", python]
    return [*pip, "install"], [*pip, "check"]


def _pip() -> list[str]:
    return [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def _uv() -> list[str]:
    found = shutil.which("uv")
    if found is not None:
        return [found]
    if find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    raise BuildError(
        "this node has no uv: install it there (`pip install uv` into the agent's environment, or "
        "the uv program on its PATH), name a version (`uv_version`), or use the pip field"
    )


def _run(command: list[str], what: str, variables: dict[str, str], cwd: str) -> None:
    environment = {**os.environ, "PIP_NO_INPUT": "1", "PIP_USER": "0", **variables}
    sys.stdout.flush()
    sys.stderr.flush()
    # Its errors and progress are our log; the end of it goes into the error message.
    done = subprocess.run(  # noqa: S603 - pip or uv with what the user asked for
        command, check=False, stdout=2, cwd=cwd or None, env=environment
    )
    if done.returncode:
        raise BuildError(f"could not {what}: exit status {done.returncode}")


# ---- what came out


def modules_in(folder: Path) -> set[str]:
    """What can be imported from a folder: top-level names; two levels of a namespace package."""
    found: set[str] = set()
    for entry in _entries(folder):
        name = entry.name.partition(".")[0]
        if not name.isidentifier():
            continue
        if entry.is_dir():
            if Path(entry.path, "__init__.py").exists():
                found.add(name)
            else:
                inner = (each.name.partition(".")[0] for each in _entries(Path(entry.path)))
                found |= {f"{name}.{each}" for each in inner if each.isidentifier()}
        elif re.search(r"\.(py|pyc|so|pyd)$", entry.name):
            found.add(name)
    return found


def _entries(folder: Path) -> Iterable[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return [entry for entry in entries if entry.name != "__pycache__"]


def _size_bytes(folder: Path) -> int:
    size = 0
    for path, _, names in os.walk(folder):
        size += sum(Path(path, name).lstat().st_size for name in names)
    return size
