"""Makes runtime environments on this node: brings packages, orders builders, keeps what they made.

What several workers, environments or jobs share is made once: whoever comes meanwhile waits for the
same builder. Nothing here takes long on the loop's thread.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from cluster_common import runtime_packages
from cluster_common.runtime_packages import Package
from cluster_common.transport.logs import get_logger
from cluster_common.transport.task_keeper import TaskKeeper
from raylet_agent import limits
from raylet_agent.core import effects as e
from raylet_agent.core.environment_cache import EnvironmentCache
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.runtime_env import Environment, Tool, environment_of
from raylet_agent.shell import build_orders, environment_folder
from raylet_agent.shell.build_orders import BuildRecipe, MakeVenv, UnpackArchive
from raylet_agent.shell.builders import Builders, BuildFailedError
from raylet_agent.shell.package_fetcher import PackageFetcher
from raylet_agent.shell.package_store import PackageError, PackageStore

log = get_logger()

_ARRIVAL = "arrival"
"""The user of what has just come, for as long as it takes to be put into the cache."""


class _Making:
    """A part that is being made, and how many wait for it."""

    def __init__(self, task: asyncio.Task[str]) -> None:
        self.task = task
        self.waiters = 0


class PreparedEnvironment(msgspec.Struct, frozen=True):
    """Where the parts of a ready environment are. `modules`: what its folders offer for import."""

    working_dir: str = ""
    module_paths: tuple[str, ...] = ()
    venv: str = ""
    modules: frozenset[str] = frozenset()


class EnvironmentStore:
    """All environments of one agent.

    Args:
        facts: of the node.
        session: the folder of this cluster session, known once the node has joined.
        bytes_max: what unused parts may take, with those in use.
        builders: make parts in processes of their own.
        keeper: of our tasks.
        made, failed: told how an order to prepare ended; with its key, and why it failed.
    """

    def __init__(
        self,
        facts: NodeFacts,
        session: Callable[[], Path],
        bytes_max: int,
        builders: Builders,
        keeper: TaskKeeper,
        made: Callable[[str], None],
        failed: Callable[[str, str], None],
    ) -> None:
        self._facts = facts
        self._session = session
        self._keeper = keeper
        self._made = made
        self._failed = failed
        self.builders = builders
        self.packages = PackageStore(lambda: self._folder / "packages")
        self._fetcher = PackageFetcher(facts, self.packages, self._came)
        self._cache = EnvironmentCache(bytes_max, limits.ENVIRONMENT_CACHE_ENTRIES_MAX)
        self._under_way: dict[str, _Making] = {}
        self._prepared: dict[str, PreparedEnvironment] = {}
        self.table = self._cache.table
        self.counters = {"environment_builds": 0, "environments_evicted": 0}

    @functools.cached_property
    def _folder(self) -> Path:
        return environment_folder.folder_of(self._session(), self._facts.node_id)

    # ---- packages of jobs

    def hold(self, digest: bytes, job_id: bytes) -> bool:
        """Keeps a package for a job; False: it is not here."""
        return self._cache.use(_package_key(digest), f"job {job_id.hex()}")

    def took(self, digest: bytes, job_id: bytes) -> None:
        """A driver brought a package."""
        self._came(digest)
        self.hold(digest, job_id)

    def job_ended(self, job_id: bytes) -> None:
        """Its packages may go."""
        self._cache.release(f"job {job_id.hex()}")
        self._make_room()

    def _came(self, digest: bytes) -> None:
        key = _package_key(digest)
        if key not in self._cache:
            self._cache.add(key, self.packages.size_bytes(digest), _ARRIVAL)
            self._cache.release(_ARRIVAL)
            self._make_room()

    # ---- environments

    def prepared(self, key: str) -> PreparedEnvironment:
        """Of a ready environment."""
        return self._prepared.get(key, PreparedEnvironment())

    def prepare(self, order: e.PrepareEnvironment) -> None:
        """Begins to make an environment."""
        self._keeper.start(self._prepare(order), "runtime environment")

    def release(self, key: str) -> None:
        """No worker uses it any more."""
        self._prepared.pop(key, None)
        self._cache.release(key)
        self._make_room()

    async def close(self) -> None:
        """After the builders have ended: the folder goes."""
        await self._fetcher.close()
        if "_folder" in vars(self):
            await asyncio.to_thread(environment_folder.remove, self._folder)

    async def _prepare(self, order: e.PrepareEnvironment) -> None:
        key = order.environment
        limit_s = order.timeout_s if order.timeout_s != float("inf") else None
        prefixes = [runtime_packages.job_prefix(order.job_id)]
        if order.actor_id:
            prefixes.insert(0, runtime_packages.actor_prefix(order.actor_id))
        try:
            async with asyncio.timeout(limit_s):
                prepared = await self._parts(environment_of(key), key, prefixes)
        except TimeoutError:
            text = (
                f"it was not ready after {order.timeout_s:g} s "
                f"(config setup_timeout_seconds): {self._what(key)}"
            )
            self._give_up(key, text)
        except (PackageError, BuildFailedError, OSError) as error:
            self._give_up(key, str(error))
        except Exception as error:
            # Whoever waits must not wait for ever.
            self._give_up(key, repr(error))
            raise
        else:
            self._prepared[key] = prepared
            self._make_room()
            self._made(key)

    @staticmethod
    def _what(key: str) -> str:
        tool = environment_of(key).tool
        return f"{tool.name} {', '.join(tool.requirements)}" if tool else "its packages"

    def _give_up(self, key: str, message: str) -> None:
        log.warning("runtime_environment_failed", reason=message)
        self._cache.release(key)
        self._make_room()
        self._failed(key, message)

    async def _parts(
        self, environment: Environment, user: str, prefixes: list[bytes]
    ) -> PreparedEnvironment:
        modules: set[str] = set()
        paths: list[str] = []
        for package in environment.packages:
            tree = await self._shared(
                f"tree {package.digest.hex()}", user, lambda p=package: self._tree(p, prefixes)
            )
            paths.append(str(tree))
            modules |= _modules(tree)
        working_dir = paths[0] if environment.working_dir is not None else ""
        venv = ""
        if environment.tool is not None:
            tool = environment.tool
            recipe = MakeVenv(
                target=str(self._folder / "venvs" / _venv_name(tool, environment)),
                tool=tool,
                working_dir=working_dir,
            )
            made = await self._shared(
                f"venv {Path(recipe.target).name}", user, lambda: self._build(recipe)
            )
            venv = str(made)
            modules |= _modules(made)
        return PreparedEnvironment(working_dir, tuple(paths), venv, frozenset(modules))

    async def _shared(self, key: str, user: str, make: Callable[[], Awaitable[int]]) -> Path:
        """A part that exists, or is made once for all who wait for it."""
        while not self._cache.use(key, user):
            making = self._under_way.get(key)
            if making is None:
                task = self._keeper.start(self._make(key, make), key)
                making = self._under_way[key] = _Making(task)
            making.waiters += 1
            try:
                # One waiter's time running out must not end it for the others.
                problem = await asyncio.shield(making.task)
            finally:
                making.waiters -= 1
                if making.waiters == 0:
                    making.task.cancel()
                    if self._under_way.get(key) is making:
                        del self._under_way[key]
            if problem:
                raise BuildFailedError(problem)
        return self._path(key)

    async def _make(self, key: str, make: Callable[[], Awaitable[int]]) -> str:
        """What went wrong; "" when the part is in the cache."""
        try:
            size_bytes = await make()
        except (PackageError, BuildFailedError, OSError) as error:
            return str(error)
        self._cache.add(key, size_bytes, _ARRIVAL)
        self._cache.release(_ARRIVAL)
        return ""

    def _path(self, key: str) -> Path:
        kind, _, name = key.partition(" ")
        return self._folder / f"{kind}s" / name

    async def _tree(self, package: Package, prefixes: list[bytes]) -> int:
        archive = _package_key(package.digest)
        user = f"unpacking {package.digest.hex()}"
        try:
            if not self._cache.use(archive, user):
                await self._fetcher.fetch(package, prefixes)
                self._cache.use(archive, user)
            recipe = UnpackArchive(
                archive=str(self.packages.path(package.digest)),
                target=str(self._folder / "trees" / package.digest.hex()),
                name=package.name,
            )
            return await self._build(recipe)
        finally:
            self._cache.release(user)

    async def _build(self, recipe: BuildRecipe) -> int:
        self.counters["environment_builds"] += 1
        return await self.builders.build(recipe)

    # ---- room

    def _make_room(self) -> None:
        victims = self._cache.take_victims()
        if not victims:
            return
        self.counters["environments_evicted"] += len(victims)
        trash = self._folder / f"trash-{os.urandom(4).hex()}"
        trash.mkdir(mode=0o700, parents=True)
        for key in victims:
            path = self._path(key)
            if path.exists():
                # Renamed at once, so that the same thing can be made anew while this one goes.
                path.rename(trash / path.name)
            build_orders.result_path(str(path)).unlink(missing_ok=True)
        work = asyncio.to_thread(shutil.rmtree, trash, ignore_errors=True)
        self._keeper.start(_nothing_of(work), "remove environments")


async def _nothing_of(work: Any) -> None:
    await work


def _modules(folder: Path) -> set[str]:
    built = build_orders.read_result(str(folder))
    return set(built.modules) if built is not None else set()


def _package_key(digest: bytes) -> str:
    return f"package {digest.hex()}"


def _venv_name(tool: Tool, environment: Environment) -> str:
    """Same name, same content: what is asked for, with what it may be read from."""
    working_dir = environment.working_dir
    inside = any("_CREATE_WORKING_DIR" in text for text in (*tool.packages, *tool.options))
    source = working_dir.uri if inside and working_dir is not None else ""
    content = msgspec.json.encode((tool, source), order="sorted")
    return hashlib.sha256(content).hexdigest()[:32]
