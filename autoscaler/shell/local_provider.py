"""Nodes as processes on this machine: agents forked by one launcher, in milliseconds each.

For trying things out and for tests. The nodes end with the autoscaler.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from autoscaler import limits
from autoscaler.core.config import INSTANCE_ID_LABEL, NodeType
from autoscaler.shell.provider import Instance, ProviderError
from cluster_common import resources
from cluster_common.transport.logs import get_logger
from cluster_common.transport.task_keeper import TaskKeeper

log = get_logger()

_OPTIONS = ("type", "host", "temp_dir", "log_level")


class LocalOptions:
    """Options of `provider` for type `local`: `host` (127.0.0.1), `temp_dir`, `log_level`."""

    def __init__(self, raw: dict[str, Any]) -> None:
        for key, value in raw.items():
            if key not in _OPTIONS:
                raise ValueError(f"provider: {key!r} is not one of {', '.join(_OPTIONS)}")
            if not isinstance(value, str):
                raise ValueError(f"provider.{key} is {value!r}, a text is needed")  # noqa: TRY004 - wrong input of a user
        self.host: str = raw.get("host", "127.0.0.1")
        self.temp_dir = Path(raw.get("temp_dir") or Path(tempfile.gettempdir(), "shoal"))
        self.log_level: str = raw.get("log_level", "WARNING")


class LocalProvider:
    """See the module."""

    def __init__(self, options: LocalOptions, gcs_address: str, session_name: str) -> None:
        self._options = options
        self._gcs_address = gcs_address
        self._session_name = session_name
        self._keeper = TaskKeeper("autoscaler")
        self._launcher: asyncio.subprocess.Process | None = None
        self._instances: dict[str, Instance] = {}
        self._pids: dict[str, int] = {}
        self._ending: set[str] = set()
        self._made = 0

    def instances(self) -> list[Instance]:
        """Agents that were ordered and not given back."""
        return list(self._instances.values())

    async def launch(self, node_type: NodeType, count: int) -> None:
        """Forks agents."""
        launcher = await self._running_launcher()
        assert launcher.stdin is not None
        for _ in range(count):
            self._made += 1
            instance_id = f"local-{os.getpid()}-{self._made}"
            now_ms = time.monotonic_ns() // 1_000_000
            self._instances[instance_id] = Instance(instance_id, node_type.name, now_ms)
            order = {
                "id": instance_id,
                "argv": self._arguments(node_type, instance_id),
                "log": str(self._log_folder() / f"{instance_id}.err"),
            }
            launcher.stdin.write(json.dumps(order).encode() + b"\n")
        try:
            await launcher.stdin.drain()
        except ConnectionError as error:
            raise ProviderError(f"the launcher of local nodes is gone: {error}") from error

    async def terminate(self, instance_id: str) -> None:
        """Ends the agent in order."""
        if instance_id not in self._instances or instance_id in self._ending:
            return
        self._ending.add(instance_id)
        pid = self._pids.get(instance_id)
        if pid is None:
            if self._instances[instance_id].failure:
                self._forget(instance_id)
            return  # it is ended as soon as its process id is known
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    async def close(self) -> None:
        """Ends all agents with the launcher; waits for it."""
        launcher, self._launcher = self._launcher, None
        if launcher is not None:
            assert launcher.stdin is not None
            launcher.stdin.close()
            try:
                async with asyncio.timeout(limits.STOP_GRACE_S):
                    await launcher.wait()
            except TimeoutError:
                log.warning("launcher_does_not_end", pid=launcher.pid)
                launcher.kill()
                await launcher.wait()
        await self._keeper.close()

    async def _running_launcher(self) -> asyncio.subprocess.Process:
        if self._launcher is not None and self._launcher.returncode is None:
            return self._launcher
        self._log_folder().mkdir(parents=True, exist_ok=True)
        launcher = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "raylet_agent.launcher",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=limits.LAUNCHER_LINE_BYTES_MAX,
            # A signal for the terminal's group is for the autoscaler to act on, in order.
            start_new_session=True,
        )
        self._launcher = launcher
        self._keeper.start(self._listen(launcher), "launcher")
        return launcher

    async def _listen(self, launcher: asyncio.subprocess.Process) -> None:
        assert launcher.stdout is not None
        while line := await launcher.stdout.readline():
            self._heard(json.loads(line))
        for instance_id in list(self._instances):
            self._ended(instance_id, "the launcher of local nodes ended")

    def _heard(self, answer: dict[str, Any]) -> None:
        if "exited" in answer:
            for instance_id, pid in list(self._pids.items()):
                if pid == answer["exited"]:
                    self._ended(instance_id, f"its agent exited with status {answer['status']}")
        elif "pid" in answer:
            instance_id = str(answer["id"])
            self._pids[instance_id] = int(answer["pid"])
            if instance_id in self._ending:
                with suppress(ProcessLookupError):
                    os.kill(self._pids[instance_id], signal.SIGTERM)
        else:
            log.error("launcher_refused", error=answer.get("error"))
            if str(answer.get("id")) in self._instances:
                self._ended(str(answer["id"]), str(answer.get("error")))

    def _ended(self, instance_id: str, why: str) -> None:
        self._pids.pop(instance_id, None)
        if instance_id in self._ending:
            self._forget(instance_id)
            return
        known = self._instances.get(instance_id)
        if known is not None:
            self._instances[instance_id] = Instance(
                instance_id, known.node_type, known.launched_ms, failure=why
            )

    def _forget(self, instance_id: str) -> None:
        self._instances.pop(instance_id, None)
        self._ending.discard(instance_id)

    def _log_folder(self) -> Path:
        return self._options.temp_dir / self._session_name / "logs"

    def _arguments(self, node_type: NodeType, instance_id: str) -> list[str]:
        amounts = resources.floats(node_type.resources)
        plain = {
            "--num-cpus": amounts.pop("CPU", 0.0),
            "--num-gpus": amounts.pop("GPU", 0.0),
            "--memory": int(amounts.pop("memory", 0.0)),
            "--object-store-memory": int(amounts.pop("object_store_memory", 0.0)),
        }
        labels = {**node_type.labels, INSTANCE_ID_LABEL: instance_id}
        stated = {
            "--gcs-address": self._gcs_address,
            "--host": self._options.host,
            "--session-name": self._session_name,
            "--temp-dir": str(self._options.temp_dir),
            "--node-name": instance_id,
            "--labels": ",".join(f"{key}={value}" for key, value in labels.items()),
            "--resources": json.dumps(amounts),
            "--log-level": self._options.log_level,
            **plain,
        }
        return [text for flag, value in stated.items() for text in (flag, str(value))]
