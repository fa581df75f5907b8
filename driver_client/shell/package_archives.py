"""Folders and files as packages: packed the same way each time, so that equal content is one name.

Left out of folders: what `excludes` names, what .gitignore and .rayignore files in them name, and
what no worker wants (`DEFAULT_EXCLUDES`).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from cluster_common import limits as common_limits
from cluster_common.runtime_packages import Package
from driver_client.core.ignore_rules import IgnoreRules
from driver_client.exceptions import RuntimeEnvSetupError

DEFAULT_EXCLUDES = (".git", ".venv", "venv", "__pycache__")
IGNORE_FILES = (".gitignore", ".rayignore")
IGNORE_GITIGNORE_VARIABLE = "SHOAL_RUNTIME_ENV_IGNORE_GITIGNORE"
"""Set to 1: what .gitignore names is packed too."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEVEL = 1
_NAMED_IN_ERRORS = 3


class LocalPackage(msgspec.Struct, frozen=True):
    """A package and the file of this process that has its bytes."""

    package: Package
    path: str
    size_bytes: int


class _File(msgspec.Struct, frozen=True):
    name: str
    path: str
    size_bytes: int
    changed_ns: int
    mode: int


class PackageArchives:
    """What this process packed. `base`: where its folder of archives goes; None: the system's."""

    def __init__(self, base: str | None = None) -> None:
        self._base = base
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._packed: dict[tuple[str, str, tuple[str, ...]], tuple[bytes, LocalPackage]] = {}

    def close(self) -> None:
        """Deletes the archives."""
        self._packed.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def pack_folder(self, folder: Path, excludes: Sequence[str], inside: str) -> LocalPackage:
        """A folder's files as an archive; packed again only when one of them changed.

        Args:
            folder: whose content.
            excludes: patterns, relative to it.
            inside: the folder of the archive that they go into; "" the top.
        """
        files = list(_walk(folder, excludes))
        return self._pack(str(folder), f"{folder.name or 'root'}.zip", inside, excludes, files)

    def pack_module(self, path: Path) -> LocalPackage:
        """A single .py file."""
        return self._pack(str(path), f"{path.name}.zip", "", (), [_file(path, path.name)])

    def take_file(self, path: Path) -> LocalPackage:
        """An archive or wheel as it is."""
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while data := file.read(1 << 20):
                digest.update(data)
        size = path.stat().st_size
        _check_size(size, path, [])
        return LocalPackage(Package(digest.digest(), path.name), str(path), size)

    def _pack(
        self, source: str, name: str, inside: str, excludes: Sequence[str], files: list[_File]
    ) -> LocalPackage:
        print_of_all = hashlib.sha256(msgspec.msgpack.encode(files)).digest()
        key = (source, inside, tuple(excludes))
        known = self._packed.get(key)
        if known is not None and known[0] == print_of_all:
            return known[1]
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix="shoal-packages-", dir=self._base, ignore_cleanup_errors=True
            )
        draft = Path(self._folder.name, f"draft-{os.urandom(4).hex()}")
        with draft.open("w+b") as out:
            _write(out, source, inside, files)
        made = self.take_file(draft)
        path = draft.with_name(made.package.digest.hex())
        draft.replace(path)
        package = Package(made.package.digest, name)
        result = LocalPackage(package, str(path), made.size_bytes)
        self._packed[key] = (print_of_all, result)
        return result


def _write(out: BinaryIO, source: str, inside: str, files: list[_File]) -> None:
    unpacked = sum(file.size_bytes for file in files)
    if unpacked > common_limits.PACKAGE_UNPACKED_BYTES_MAX:
        _check_size(unpacked, Path(source), files)
    if len(files) > common_limits.PACKAGE_FILES_MAX:
        most = common_limits.PACKAGE_FILES_MAX
        raise RuntimeEnvSetupError(f"{source} has {len(files)} files; at most {most} are packed")
    prefix = f"{inside}/" if inside else ""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for file in files:
            item = zipfile.ZipInfo(prefix + file.name, _EPOCH)
            item.compress_type = zipfile.ZIP_DEFLATED
            item.external_attr = (file.mode & 0o777 | 0o100000) << 16
            with Path(file.path).open("rb") as data, archive.open(item, "w") as target:
                while piece := data.read(1 << 20):
                    target.write(piece)
            _check_size(out.tell(), Path(source), files)


def _check_size(size: int, source: Path, files: list[_File]) -> None:
    most = common_limits.PACKAGE_BYTES_MAX
    if size <= most:
        return
    largest = sorted(files, key=lambda file: -file.size_bytes)[:_NAMED_IN_ERRORS]
    named = ", ".join(f"{file.name} ({file.size_bytes >> 20} MiB)" for file in largest)
    hint = f"; the largest files are {named}" if named else ""
    raise RuntimeEnvSetupError(
        f"the package of {source} is larger than {most >> 20} MiB{hint}: leave files out with "
        "excludes or a .gitignore, or put data on a disk that all nodes share"
    )


def _walk(folder: Path, excludes: Sequence[str]) -> Iterator[_File]:
    """Files of a folder in order of their names, links followed."""
    always = [IgnoreRules(DEFAULT_EXCLUDES), IgnoreRules(excludes)]
    names = IGNORE_FILES
    if os.environ.get(IGNORE_GITIGNORE_VARIABLE) == "1":
        names = IGNORE_FILES[1:]

    def left_out(path: str, chain: list[tuple[str, IgnoreRules]], *, is_folder: bool) -> bool:
        if any(rules.verdict(path, is_folder=is_folder) for rules in always):
            return True
        for base, rules in reversed(chain):
            verdict = rules.verdict(path[len(base) :], is_folder=is_folder)
            if verdict is not None:
                return verdict
        return False

    def inner(
        real: Path, base: str, chain: list[tuple[str, IgnoreRules]], above: tuple[str, ...]
    ) -> Iterator[_File]:
        own = [*chain, *((base, IgnoreRules(lines)) for lines in _ignore_files(real, names))]
        with os.scandir(real) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            path = base + entry.name
            is_folder = entry.is_dir()
            if left_out(path, own, is_folder=is_folder):
                continue
            if is_folder:
                target = os.path.realpath(entry.path)
                if target not in above:  # a link back to where we are would never end
                    yield from inner(Path(entry.path), f"{path}/", own, (*above, target))
            elif entry.is_file():
                yield _file(Path(entry.path), path)

    yield from inner(folder, "", [], (os.path.realpath(folder),))


def _ignore_files(folder: Path, names: Sequence[str]) -> Iterator[list[str]]:
    for name in names:
        path = folder / name
        if path.is_file():
            yield path.read_text(encoding="utf-8", errors="replace").splitlines()


def _file(path: Path, name: str) -> _File:
    facts = path.stat()
    return _File(name, str(path), facts.st_size, facts.st_mtime_ns, facts.st_mode)
