"""Starting the services as processes: used by the CLI, by `shoal.init()` and by the test cluster.

Nothing here talks gRPC: a process says in its port file that it is ready, and where.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from shoal import child_process
from shoal.agent_launcher import AgentLauncher, PendingAgent
from shoal.agent_process import LOOPBACK, AgentOptions, AgentProcess
from shoal.child_process import ChildProcess, ProcessHandle, ProcessStartError
from shoal.session_folder import SessionFolder, default_temp_dir

__all__ = [
    "AgentLauncher",
    "AgentOptions",
    "AgentProcess",
    "GcsOptions",
    "GcsProcess",
    "LocalCluster",
    "PendingAgent",
    "ProcessStartError",
    "SessionFolder",
    "default_temp_dir",
    "start_agent",
    "start_gcs",
    "start_local_cluster",
]

_PORT_TRIES_MAX = 3
"""Picked ports that somebody else took first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsOptions:
    """Flags of `python -m gcs_service`; None leaves the service's own default.

    `storage` is "sqlite" (`storage_path` is a folder), "redis" (it is a URL) or "memory".
    `sync_scope` "all" sends every node's view to every agent, for comparison.
    """

    host: str = LOOPBACK
    port: int = 0
    storage: str = "memory"
    storage_path: Path | str | None = None
    kv_quota_bytes: int | None = None
    history_rows: int | None = None
    log_level: str | None = None
    ping_interval_s: float | None = None
    sync_scope: str | None = None
    settings: dict[str, str] = field(default_factory=dict[str, str])

    def arguments(self, session_name: str, port_file: Path) -> list[str]:
        """The command line, without the program."""
        stated: list[tuple[str, object]] = [
            ("--host", self.host),
            ("--port", self.port),
            ("--storage", self.storage),
            ("--storage-path", self.storage_path),
            ("--kv-quota", self.kv_quota_bytes),
            ("--history-rows", self.history_rows),
            ("--session-name", session_name),
            ("--port-file", port_file),
            ("--log-level", self.log_level),
            ("--ping-interval", self.ping_interval_s),
            ("--sync-scope", self.sync_scope),
            *(("--set", f"{name}={value}") for name, value in self.settings.items()),
        ]
        return [text for flag, value in stated if value is not None for text in (flag, str(value))]


class GcsProcess:
    """A running GCS that answers at `address`."""

    def __init__(self, process: ProcessHandle, address: str) -> None:
        self._process = process
        self.address = address

    def __repr__(self) -> str:
        return f"GcsProcess({self.address}, pid {self.pid})"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.wait(0) is None

    def stop(self, grace_s: float = child_process.STOP_GRACE_S) -> None:
        """Orderly end; SIGKILL after `grace_s`."""
        child_process.stop(self._process, grace_s)

    def kill(self) -> None:
        """SIGKILL. What it acknowledged is in its storage."""
        child_process.kill(self._process)


class _Starting:
    """A process on its way: begun here, awaited with `wait`."""

    def __init__(
        self,
        part: str,
        module: str,
        arguments: list[str],
        *,
        files: tuple[Path, Path],
        env: dict[str, str],
        die_with_parent: bool,
    ) -> None:
        self._part = part
        self._port_file, self._log_file = files
        self.process = ChildProcess(
            module,
            arguments,
            log_file=self._log_file,
            env=env,
            die_with_parent=die_with_parent,
        )

    def wait(self, deadline_s: float = child_process.START_DEADLINE_S) -> str:
        """The text of the port file; the process is killed if that does not come."""
        try:
            text = child_process.wait_for_port_file(
                self._part, self.process, self._port_file, self._tail, deadline_s
            )
        except BaseException:
            # Ctrl-C too: a background process nobody recorded could never be stopped.
            child_process.kill(self.process)
            raise
        self._port_file.unlink(missing_ok=True)
        return text

    def _tail(self) -> str:
        return child_process.tail_of(self._log_file)


def start_gcs(
    session: SessionFolder,
    options: GcsOptions | None = None,
    *,
    env: dict[str, str] | None = None,
    die_with_parent: bool = True,
) -> GcsProcess:
    """Starts a GCS and waits until it answers.

    Raises:
        ProcessStartError: it ended first or was late; has the end of its stderr.
    """
    starting = _begin_gcs(session, options or GcsOptions(), env or {}, die_with_parent)
    return GcsProcess(starting.process, starting.wait())


def start_agent(
    session: SessionFolder,
    gcs_address: str,
    options: AgentOptions | None = None,
    *,
    die_with_parent: bool = True,
) -> AgentProcess:
    """Starts an agent and waits until it is registered with the GCS.

    Raises:
        ProcessStartError: it ended first or was late; has the end of its stderr.
    """
    starting = _begin_agent(session, gcs_address, options or AgentOptions(), die_with_parent)
    return AgentProcess.from_port_file(starting.process, starting.wait())


@dataclass(slots=True)
class LocalCluster:
    """One GCS and one head agent of this process (`shoal.init()` without an address)."""

    session: SessionFolder
    gcs: GcsProcess
    agent: AgentProcess

    def stop(self, *, keep_logs: bool = False) -> None:
        """Ends both; the session's folder goes too, unless `keep_logs`."""
        self.agent.stop()
        # Its state ends with this process: an orderly end would only wait for peers.
        self.gcs.kill()
        if not keep_logs:
            self.session.remove()


def start_local_cluster(
    gcs_options: GcsOptions | None = None,
    agent_options: AgentOptions | None = None,
    *,
    session: SessionFolder | None = None,
    die_with_parent: bool = True,
) -> LocalCluster:
    """Starts a GCS and the head agent at the same moment and waits for both.

    The agent needs the GCS's address at its start. Waiting for the GCS first would add one
    interpreter start (0.2-0.4 s), so the port is picked here; if somebody takes it in between,
    another one is tried.

    Raises:
        ProcessStartError: one of them ended first or was late; nothing is left running.
    """
    gcs_options = gcs_options or GcsOptions()
    agent_options = agent_options or AgentOptions(head=True, scheduler=True)
    given, session = session, session or SessionFolder()
    try:
        return _start_on_some_port(gcs_options, agent_options, session, die_with_parent)
    except ProcessStartError:
        raise  # it names logs in the folder
    except BaseException:
        if given is None:
            session.remove()
        raise


def _start_on_some_port(
    gcs_options: GcsOptions,
    agent_options: AgentOptions,
    session: SessionFolder,
    die_with_parent: bool,  # noqa: FBT001 - private, named at its one call
) -> LocalCluster:
    for attempt in range(1, _PORT_TRIES_MAX + 1):
        port = gcs_options.port or _free_port(gcs_options.host)
        chosen = GcsOptions(
            host=gcs_options.host,
            port=port,
            storage=gcs_options.storage,
            storage_path=gcs_options.storage_path,
            kv_quota_bytes=gcs_options.kv_quota_bytes,
            history_rows=gcs_options.history_rows,
            log_level=gcs_options.log_level,
            ping_interval_s=gcs_options.ping_interval_s,
            settings=gcs_options.settings,
        )
        try:
            return _start_both(session, chosen, agent_options, die_with_parent)
        except ProcessStartError as error:
            taken = "in use" in str(error) and not gcs_options.port
            if not taken or attempt == _PORT_TRIES_MAX:
                raise
    raise AssertionError("the loop returns or raises")


def _start_both(
    session: SessionFolder,
    gcs_options: GcsOptions,
    agent_options: AgentOptions,
    die_with_parent: bool,  # noqa: FBT001 - private, named at its one call
) -> LocalCluster:
    env = agent_options.env
    begun: list[_Starting] = []
    try:
        gcs = _begin_gcs(session, gcs_options, env, die_with_parent)
        begun.append(gcs)
        address = f"{gcs_options.host}:{gcs_options.port}"
        agent = _begin_agent(session, address, agent_options, die_with_parent)
        begun.append(agent)
        end = time.monotonic() + child_process.START_DEADLINE_S
        stated = gcs.wait()
        registered = agent.wait(max(0.0, end - time.monotonic()))
    except BaseException:
        # Also for Ctrl-C: nothing that was begun may stay.
        for starting in reversed(begun):
            child_process.kill(starting.process)
        raise
    return LocalCluster(
        session,
        GcsProcess(gcs.process, stated),
        AgentProcess.from_port_file(agent.process, registered),
    )


def _begin_gcs(
    session: SessionFolder,
    options: GcsOptions,
    env: dict[str, str],
    die_with_parent: bool,  # noqa: FBT001 - private, passed on
) -> _Starting:
    files = session.next_files("gcs")
    arguments = options.arguments(session.session_name, files[0])
    return _Starting(
        "the GCS",
        "gcs_service",
        arguments,
        files=files,
        env=env,
        die_with_parent=die_with_parent,
    )


def _begin_agent(
    session: SessionFolder,
    gcs_address: str,
    options: AgentOptions,
    die_with_parent: bool,  # noqa: FBT001 - private, passed on
) -> _Starting:
    files = session.next_files("agent")
    arguments = options.arguments(gcs_address, session.temp_dir, session.session_name, files[0])
    return _Starting(
        "the agent",
        "raylet_agent",
        arguments,
        files=files,
        env=options.env,
        die_with_parent=die_with_parent,
    )


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
