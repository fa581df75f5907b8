"""Requirements as pip and uv read them, made independent of where this process stands."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from driver_client.core.shapes import is_list

_DEPTH_MAX = 10
_INCLUDE = re.compile(r"^(?:-r\s*|--requirement[ =]\s*)(\S+)$")
_PATH_OPTION = re.compile(r"^(-f|--find-links|-c|--constraint|-e|--editable)(\s*|\s+|=)([^\s=].*)$")
_FILES_PRINTED_MAX = 10_000
_NOT_SOURCES = (".git", "build", "__pycache__")


def requirements(name: str, value: Any) -> list[str]:
    """The lines of a list or a requirements file; included files are put in their place.

    Raises:
        ValueError: a file is missing; names it.
    """
    if is_list(value):
        lines = _plain([str(item) for item in value], Path.cwd(), name, 0)
    else:
        lines = _from_file(Path(str(value)).expanduser(), name, 0)
    return list(dict.fromkeys(lines))


def local_print(lines: Iterable[str]) -> str:
    """A hash of the local sources among the lines: the same line may stand for changed files."""
    found = hashlib.sha256()
    is_local = False
    for line in lines:
        path = Path(re.sub(r"^(-e|--editable)[ =]?\s*", "", line))
        if path.is_absolute() and path.exists():
            is_local = True
            for part in _files(path):
                facts = part.stat()
                found.update(f"{part}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode())
    return found.hexdigest() if is_local else ""


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files: list[Path] = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(each for each in folders if each not in _NOT_SOURCES)
        files += [Path(folder, each) for each in sorted(names) if ".egg-info" not in folder]
        if len(files) > _FILES_PRINTED_MAX:
            break
    return files


def _from_file(path: Path, name: str, depth: int) -> list[str]:
    if not path.is_file():
        raise ValueError(f"{name}: there is no requirements file {path}")
    if depth > _DEPTH_MAX:
        raise ValueError(f"{name}: {path} is included more than {_DEPTH_MAX} files deep")
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [re.sub(r"(^|\s)#.*$", "", line).strip() for line in text.splitlines()]
    return _plain([line for line in lines if line], path.absolute().parent, name, depth)


def _plain(lines: list[str], base: Path, name: str, depth: int) -> list[str]:
    result: list[str] = []
    for line in lines:
        included = _INCLUDE.match(line)
        if included is not None and "${" not in line:
            result += _from_file(base / included[1], name, depth + 1)
        else:
            result.append(_absolute(line, base))
    return result


def _absolute(line: str, base: Path) -> str:
    option = _PATH_OPTION.match(line)
    if option is not None:
        path = base / option[3]
        return f"{option[1]} {path.resolve()}" if path.exists() else line
    if line.startswith((".", "/")) or line.endswith((".whl", ".tar.gz", ".zip")):
        path = base / line
        if path.exists():
            return str(path.resolve())
    return line
