"""The builder processes of an agent: started in order, a few at once, their output kept."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

from cluster_common import ids
from raylet_agent import limits
from raylet_agent.shell import build_orders
from raylet_agent.shell.build_orders import BuildRecipe, MakeVenv, UnpackArchive
from raylet_agent.shell.fork_client import ForkClient
from raylet_agent.shell.fork_messages import Exited, Report
from raylet_agent.shell.worker_output import OutputStream

_CULPRITS = (
    r"No matching distribution found for ([^\s(]+)",
    r"Could not find a version that satisfies the requirement ([^\s(]+)",
    r"Invalid requirement: '?([^'\n]+)",
    r"Failed (?:building wheel for|to build):? '?([^\s']+)",
    r"Because ([A-Za-z0-9._-]+) was not found",
)


class BuildFailedError(RuntimeError):
    """A builder gave up; the message has the tool's last words."""


class _Run:
    def __init__(self, log_path: Path, pipes: tuple[int, int]) -> None:
        self.ended: asyncio.Future[Exited] = asyncio.get_running_loop().create_future()
        self.streams = [OutputStream(pipe, log_path, _ignore) for pipe in pipes]

    def close(self) -> str:
        """The end of what it said."""
        for stream in self.streams:
            stream.close()
        return "\n".join(
            text for s in self.streams if (text := s.tail.decode(errors="replace").strip())
        )


class Builders:
    """Orders builds of the fork server. `log_folder` is asked for at each build."""

    def __init__(self, forks: ForkClient, log_folder: Callable[[], Path]) -> None:
        self._forks = forks
        self._log_folder = log_folder
        # Unpacking takes moments: it does not queue behind a tool that waits for the network.
        self._turns = {
            kind: asyncio.Semaphore(limits.ENVIRONMENT_BUILDS_MAX)
            for kind in (MakeVenv, UnpackArchive)
        }
        self._runs: dict[bytes, _Run] = {}

    def report(self, report: Report) -> bool:
        """The fork server's word about one of ours; False: it is about a worker."""
        run = self._runs.get(report.worker_id)
        if run is None:
            return False
        if isinstance(report, Exited) and not run.ended.done():
            run.ended.set_result(report)
        return True

    async def build(self, recipe: BuildRecipe) -> int:
        """Makes one thing; how many bytes it has.

        Raises:
            BuildFailedError: it could not be made.
        """
        async with self._turns[type(recipe)]:
            build_id = os.urandom(ids.OWNER_ID_BYTES)
            pipes = self._forks.build(build_id, recipe)
            if pipes is None:
                raise BuildFailedError("the agent has no file descriptors left for a builder")
            log_path = self._log_folder() / f"runtime_env-{Path(recipe.target).name[:16]}.log"
            run = self._runs[build_id] = _Run(log_path, pipes)
            try:
                exited = await run.ended
            finally:
                if not run.ended.done():
                    self._forks.kill(build_id)
                del self._runs[build_id]
                tail = run.close()
        built = build_orders.read_result(recipe.target)
        if exited.status or built is None:
            raise BuildFailedError(_sentence(recipe, exited, tail or exited.message))
        return built.size_bytes


def _sentence(recipe: BuildRecipe, exited: Exited, tail: str) -> str:
    if not isinstance(recipe, MakeVenv):
        return f"package {recipe.name} could not be unpacked (status {exited.status}): {tail}"
    tool = recipe.tool
    wanted = ", ".join(tool.requirements)
    for pattern in _CULPRITS:
        found = re.search(pattern, tail)
        if found:
            whom = found[1].strip("'\"`,;:")
            break
    else:
        whom = wanted
    return (
        f"{tool.name} could not install {whom} (of: {wanted}; status "
        f"{exited.status}). The end of its output:\n{tail}"
    )


def _ignore(_lines: list[bytes]) -> None:
    """The log file has them."""
