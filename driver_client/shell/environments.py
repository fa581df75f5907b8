"""Runtime environments of what this process submits: packed once, brought once, then a text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cluster_api.v1 import agent_pb2 as pb
from cluster_common import runtime_packages
from driver_client import limits
from driver_client.runtime_env import RuntimeEnv
from driver_client.shell import environment_texts
from driver_client.shell.gcs_link import GcsLink
from driver_client.shell.io_thread import IoThread
from driver_client.shell.package_archives import LocalPackage, PackageArchives
from driver_client.shell.package_uploads import PackageUploads
from driver_client.shell.process_facts import ProcessFacts


class Environments:
    """One per runtime. Methods without a remark: any thread but the I/O thread."""

    def __init__(self, io: IoThread, facts: ProcessFacts, gcs_link: Callable[[], GcsLink]) -> None:
        self._io = io
        self._facts = facts
        self.uploads = PackageUploads(facts, gcs_link)
        self.archives = PackageArchives(_base(facts))
        self._lock = threading.Lock()
        self._texts: dict[tuple[int, str], tuple[Any, str]] = {}

    def text_for(self, environment: Mapping[str, Any] | None) -> str:
        """The text of a task's or actor's environment, over the one that holds here.

        The same dict is packed once: later changes of it or of its files make no difference.

        Raises:
            ValueError, TypeError: a field is wrong; names it.
            RuntimeEnvSetupError: a package is too large or cannot be brought to the agent.
        """
        parent = self._facts.runtime_env_json
        if not environment:
            return parent
        key = (id(environment), parent)
        with self._lock:
            known = self._texts.pop(key, None)
            if known is None:
                packed = environment_texts.pack(environment, self.archives)
                self.bring(packed.packages)
                known = (environment, packed.text(parent))
            # The dict is kept alive with its text: nobody else can get its id meanwhile.
            self._texts[key] = known
            if len(self._texts) > limits.ENVIRONMENT_TEXTS_MAX:
                del self._texts[next(iter(self._texts))]
            return known[1]

    def bring(self, packages: Iterable[LocalPackage]) -> None:
        """Brings packages to our agent, unless it has them."""
        missing = [package for package in packages if not self.uploads.is_sent(package)]
        if missing:
            self._io.call(self.uploads.send(missing))

    def close(self) -> None:
        """Deletes the archives of this process."""
        self.archives.close()


def packages_of(text: str) -> list[runtime_packages.Package]:
    """The packages that an environment's text names."""
    environment = RuntimeEnv.deserialize(text)
    uris = [environment.working_dir(), *environment.py_modules()]
    return [runtime_packages.parse_uri(uri) for uri in uris if uri]


def order_ahead(text: str, job_id: bytes) -> pb.OwnerItem | None:
    """What tells an agent to make the environment before the first task; None: not wanted."""
    environment = RuntimeEnv.deserialize(text)
    config: dict[str, Any] = environment.get("config") or {}
    made = environment.has_pip() or environment.has_uv() or packages_of(text)
    if not made or not config.get("eager_install", True):
        return None
    return pb.OwnerItem(prepare=pb.PrepareEnvironment(runtime_env_json=text, job_id=job_id))


def _base(facts: ProcessFacts) -> str | None:
    """Workers end without cleaning up: their files go with the session's folder."""
    if facts.is_driver or not facts.temp_dir:
        return None
    session = Path(facts.temp_dir, facts.session_name)
    return str(session) if session.is_dir() else None
