"""What a builder process is told to make on the disk, and what it answers there."""

from __future__ import annotations

from pathlib import Path

import msgspec

from raylet_agent.core.runtime_env import Tool


class UnpackArchive(msgspec.Struct, frozen=True, tag="unpack"):
    """Unpack a zip archive, or install a wheel, into the folder `target`."""

    archive: str
    target: str
    name: str
    """Of the package, for messages; its suffix says what it is."""


class MakeVenv(msgspec.Struct, frozen=True, tag="venv"):
    """Make a virtual environment in the folder `target` that also sees the agent's packages."""

    target: str
    tool: Tool
    working_dir: str
    """Where the tool runs; "" none."""


BuildRecipe = UnpackArchive | MakeVenv


class Built(msgspec.Struct, frozen=True):
    """`modules`: what can be imported from it now, by top-level name (or two levels of it)."""

    size_bytes: int
    modules: tuple[str, ...]


def result_path(target: str) -> Path:
    """The file that says that `target` is complete, and what it is."""
    return Path(f"{target}.built")


def read_result(target: str) -> Built | None:
    """What was made; None: it is not complete."""
    try:
        return msgspec.json.decode(result_path(target).read_bytes(), type=Built)
    except (OSError, msgspec.DecodeError):
        return None
