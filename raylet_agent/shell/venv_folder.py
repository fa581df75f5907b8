"""Virtual environments on top of the agent's own: where their parts are."""

from __future__ import annotations

import site
import sys
import venv
from pathlib import Path

_PARENT_FILE = "_shoal_parent.pth"


def make(folder: Path, *, with_pip: bool) -> None:
    """Makes one that finds the agent's packages after its own.

    The standard way to see outer packages only knows the base interpreter's; the agent may itself
    live in a virtual environment.

    Raises:
        subprocess.CalledProcessError: pip could not be put into it.
    """
    venv.EnvBuilder(symlinks=True, with_pip=with_pip).create(folder)
    folders = [path for path in site.getsitepackages() if Path(path).is_dir()]
    if site.ENABLE_USER_SITE and Path(site.getusersitepackages()).is_dir():
        folders.append(site.getusersitepackages())
    lines = [f"import site, sys; {p!r} in sys.path or site.addsitedir({p!r})\n" for p in folders]
    (site_packages_of(folder) / _PARENT_FILE).write_text("".join(lines), encoding="utf-8")


def python_of(folder: Path) -> Path:
    """Its interpreter."""
    return folder / "bin" / "python"


def site_packages_of(folder: Path) -> Path:
    """Where its packages are."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return folder / "lib" / version / "site-packages"
