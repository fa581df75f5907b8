"""Many agents from one process that imported everything once: a child is up in milliseconds.

Client of `python -m raylet_agent.launcher`: one JSON object a line on its stdin
(`{"id", "argv", "env", "log"}`), one a line back (`{"ready"}` once, then `{"id", "pid"}`,
`{"id", "error"}`, or `{"exited", "status"}`). All its agents end with it, and it ends when its
stdin does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal import child_process
from shoal.agent_process import AgentOptions, AgentProcess
from shoal.child_process import ProcessStartError
from shoal.closing import Closing
from shoal.session_folder import SessionFolder

_REAP_GRACE_S = 30.0
"""For the launcher to end all its agents at close; then SIGKILL."""


class LaunchedProcess:
    """An agent whose parent is the launcher, which reaps it: the pid is valid until it says so."""

    def __init__(self) -> None:
        self.pid = 0
        self._started = threading.Event()
        self._ended = threading.Event()
        self._status: int | None = None
        self.error = ""

    def started(self, pid: int) -> None:
        """The launcher forked it."""
        self.pid = pid
        self._started.set()

    def ended(self, status: int, error: str = "") -> None:
        """It ended, or could not be forked, or the launcher is gone."""
        self._status = status
        self.error = error
        self._started.set()
        self._ended.set()

    def send(self, signal_number: int) -> None:
        """Signals the process; nothing happens when it has ended."""
        self._started.wait(child_process.START_DEADLINE_S)
        if self._ended.is_set() or not self.pid:
            return
        try:
            os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return

    def wait(self, timeout_s: float) -> int | None:
        """Exit status, or None when it still runs after `timeout_s`."""
        return self._status if self._ended.wait(timeout_s) else None


class PendingAgent:
    """An agent that was asked for; several can start at the same moment."""

    def __init__(
        self, process: LaunchedProcess, port_file: Path, log_file: Path, launcher_log: Path
    ) -> None:
        self._process = process
        self._port_file = port_file
        self._log_file = log_file
        self._launcher_log = launcher_log

    def wait(self, deadline_s: float = child_process.START_DEADLINE_S) -> AgentProcess:
        """The agent, once it is registered with its GCS.

        Raises:
            ProcessStartError: it ended first, or was late.
        """
        text = child_process.wait_for_port_file(
            "an agent", self._process, self._port_file, self._tail, deadline_s
        )
        self._port_file.unlink(missing_ok=True)
        return AgentProcess.from_port_file(self._process, text)

    def _tail(self) -> str:
        if self._process.error:
            # It never was a process of its own.
            return f": {self._process.error}{child_process.tail_of(self._launcher_log)}"
        return child_process.tail_of(self._log_file)


class AgentLauncher(Closing):
    """Starts agents of one session. Thread-safe; close it, or use it as a context manager.

    Its process starts with `warm`, or with the first agent: by then somebody has this object and
    can close it, whatever interrupt comes in between.
    """

    def __init__(
        self,
        session: SessionFolder,
        *,
        preload: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._session = session
        _, self._log_file = session.next_files("launcher")
        self._lock = threading.Lock()
        self._asked: dict[int, LaunchedProcess] = {}
        self._running: dict[int, LaunchedProcess] = {}
        self._next_id = 0
        self._flags = ["--preload", ",".join(preload)] if preload else []
        self._env = {**os.environ, **(env or {})}
        self._launcher: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name="agent-launcher", daemon=True)

    def warm(self) -> None:
        """Starts the launcher's process, which then imports what agents need. Idempotent."""
        with self._lock:
            self._started()

    def _started(self) -> subprocess.Popen[str]:
        """The launcher's process; started if it was not. Needs the lock."""
        if self._launcher is not None:
            return self._launcher
        with self._log_file.open("ab") as log:
            launcher = self._launcher = subprocess.Popen(  # noqa: S603 - our own module, our own flags
                [sys.executable, "-m", "raylet_agent.launcher", *self._flags],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._env,
                start_new_session=True,
                text=True,
            )
        self._reader.start()
        return launcher

    @property
    def pid(self) -> int:
        """The launcher's own process id."""
        with self._lock:
            return self._started().pid

    def begin(self, options: AgentOptions, gcs_address: str) -> PendingAgent:
        """Asks for one agent and returns at once.

        Raises:
            ProcessStartError: the launcher is gone.
        """
        port_file, log_file = self._session.next_files("agent")
        session = self._session
        arguments = options.arguments(
            gcs_address, session.temp_dir, session.session_name, port_file
        )
        process = LaunchedProcess()
        with self._lock:
            launcher = self._started()
            self._next_id += 1
            self._asked[self._next_id] = process
            command = {
                "id": self._next_id,
                "argv": arguments,
                "env": options.env,
                "log": str(log_file),
            }
            self._write(launcher, json.dumps(command) + "\n")
        return PendingAgent(process, port_file, log_file, self._log_file)

    def start(self, options: AgentOptions, gcs_address: str) -> AgentProcess:
        """Starts one agent and waits until it is registered."""
        return self.begin(options, gcs_address).wait()

    def close(self) -> None:
        """Ends all agents (in order, then by force) and the launcher."""
        launcher = self._launcher
        if launcher is None:
            return
        assert launcher.stdin is not None
        # It may have died with words of ours unread; the wait below settles it.
        with self._lock, contextlib.suppress(OSError):
            launcher.stdin.close()
        try:
            launcher.wait(_REAP_GRACE_S)
        except subprocess.TimeoutExpired:
            launcher.send_signal(signal.SIGKILL)
            launcher.wait()
        if self._reader.ident is not None:  # an interrupt may have come before it ran
            self._reader.join(child_process.STOP_GRACE_S)
        if launcher.stdout is not None:
            launcher.stdout.close()

    def _write(self, launcher: subprocess.Popen[str], line: str) -> None:
        assert launcher.stdin is not None
        try:
            launcher.stdin.write(line)
            launcher.stdin.flush()
        except (OSError, ValueError) as error:
            raise ProcessStartError(
                f"the agent launcher is gone{child_process.tail_of(self._log_file)}"
            ) from error

    def _read(self) -> None:
        launcher = self._launcher
        assert launcher is not None
        assert launcher.stdout is not None
        for line in launcher.stdout:
            self._heard(json.loads(line))
        with self._lock:
            lost = [*self._asked.values(), *self._running.values()]
            self._asked.clear()
            self._running.clear()
        for process in lost:
            process.ended(-signal.SIGKILL, "the agent launcher ended")

    def _heard(self, message: dict[str, Any]) -> None:
        with self._lock:
            if "exited" in message:
                process = self._running.pop(int(message["exited"]), None)
                if process is not None:
                    process.ended(int(message["status"]))
                return
            process = self._asked.pop(int(message.get("id", 0)), None)
            if process is None:
                return
            if "pid" in message:
                self._running[int(message["pid"])] = process
                process.started(int(message["pid"]))
            else:
                process.ended(1, str(message.get("error", "refused by the launcher")))
