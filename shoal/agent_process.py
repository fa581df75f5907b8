"""One agent: the options it is started with and the handle on the running process."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, field
from pathlib import Path

from shoal import child_process
from shoal.child_process import ProcessHandle

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Flags of `python -m raylet_agent`; None leaves the agent's own default.

    Amounts are in user units (CPUs, bytes); `settings` become `--set name=value`; `env` is set for
    the agent and its workers; `via` is the address of an agent that relays the session to the GCS.
    """

    host: str = LOOPBACK
    via: str | None = None
    port: int = 0
    node_name: str | None = None
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: int | None = None
    object_store_memory: int | None = None
    resources: dict[str, float] = field(default_factory=dict[str, float])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    scheduler: bool = False
    head: bool = False
    prestart: int | None = None
    preload: tuple[str, ...] = ()
    worker_entry: str | None = None
    log_level: str | None = None
    settings: dict[str, str] = field(default_factory=dict[str, str])
    env: dict[str, str] = field(default_factory=dict[str, str])

    def arguments(
        self, gcs_address: str, temp_dir: Path, session_name: str, port_file: Path
    ) -> list[str]:
        """The command line, without the program."""
        stated: list[tuple[str, object]] = [
            ("--gcs-address", gcs_address),
            ("--via", self.via),
            ("--host", self.host),
            ("--port", self.port),
            ("--session-name", session_name),
            ("--temp-dir", temp_dir),
            ("--port-file", port_file),
            ("--node-name", self.node_name),
            ("--num-cpus", self.num_cpus),
            ("--num-gpus", self.num_gpus),
            ("--memory", self.memory),
            ("--object-store-memory", self.object_store_memory),
            ("--resources", json.dumps(self.resources) if self.resources else None),
            ("--labels", ",".join(f"{k}={v}" for k, v in self.labels.items()) or None),
            ("--prestart", self.prestart),
            ("--preload", ",".join(self.preload) or None),
            ("--worker-entry", self.worker_entry),
            ("--log-level", self.log_level),
            *(("--set", f"{name}={value}") for name, value in self.settings.items()),
        ]
        flags = [text for flag, value in stated if value is not None for text in (flag, str(value))]
        flags += ["--scheduler"] if self.scheduler else []
        flags += ["--head"] if self.head else []
        return flags


class AgentProcess:
    """A running agent, registered with its GCS."""

    def __init__(self, process: ProcessHandle, address: str, node_id: str) -> None:
        self._process = process
        self.address = address
        self.node_id = node_id

    @classmethod
    def from_port_file(cls, process: ProcessHandle, text: str) -> AgentProcess:
        """Reads what the agent wrote when it was registered."""
        stated = json.loads(text)
        return cls(process, str(stated["address"]), str(stated["node_id"]))

    def __repr__(self) -> str:
        return f"AgentProcess({self.address}, node {self.node_id[:12]}, pid {self.pid})"

    @property
    def pid(self) -> int:
        """The agent's process id."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.wait(0) is None

    def exit_status(self) -> int | None:
        """Its exit status (negative: signal number), None while it runs."""
        return self._process.wait(0)

    def stop(self, grace_s: float = child_process.STOP_GRACE_S, *, drain: bool = False) -> None:
        """Orderly end: goodbye to the GCS, workers ended; SIGKILL after `grace_s`.

        `drain`: what runs may finish first, within the agent's `stop_grace_s`.
        """
        number = signal.SIGTERM if drain else signal.SIGINT
        child_process.stop(self._process, grace_s, number)

    def send(self, signal_number: int) -> None:
        """Signals the agent, as an operating system or a test does."""
        self._process.send(signal_number)

    def kill(self) -> None:
        """SIGKILL: what a crashed node looks like. Its workers go with it."""
        child_process.kill(self._process)
