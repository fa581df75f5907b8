"""What a runtime environment changes in a worker's process: where it is and what it imports."""

from __future__ import annotations

import importlib
import os
import site
import sys
import sysconfig
from pathlib import Path

from cluster_common.worker_start import WorkerStart
from raylet_agent.shell import venv_folder


def apply(start: WorkerStart) -> None:
    """Changes folder and search path.

    Order: working_dir, py_modules, PYTHONPATH, the standard library, pip or uv, the node's own.
    """
    if start.working_dir:
        os.chdir(start.working_dir)
    front = list(start.module_paths)
    if "PYTHONPATH" in start.env:
        front += [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if path]
    if start.venv:
        # Packages come after the standard library, as everywhere: some bear names of its modules.
        front += [path for path in sys.path if path in _standard_paths()]
        front += _enter(Path(start.venv))
    if front:
        sys.path[:] = [*dict.fromkeys(front), *(path for path in sys.path if path not in front)]
        importlib.invalidate_caches()


def _standard_paths() -> set[str]:
    libraries = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    dynamic = {str(Path(path, "lib-dynload")) for path in libraries}
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    zipped = {str(Path(path).parent / f"python{version}.zip") for path in libraries}
    return libraries | dynamic | zipped


def _enter(folder: Path) -> list[str]:
    """Makes a virtual environment this process's own; the paths that come with it."""
    os.environ["VIRTUAL_ENV"] = str(folder)
    os.environ["PATH"] = os.pathsep.join((str(folder / "bin"), os.environ.get("PATH", "")))
    # Programs that start Python again start this one.
    sys.executable = str(venv_folder.python_of(folder))
    sys.prefix = sys.exec_prefix = str(folder)
    packages = str(venv_folder.site_packages_of(folder))
    known = set(sys.path)
    site.addsitedir(packages)
    return [packages, *(path for path in sys.path if path not in known and path != packages)]
