"""One process of a cluster as its starter sees it: signals, its end, and why it did not start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

POLL_STEP_S = 0.005
"""Between two looks at a port file; a start takes some 200 ms."""

START_DEADLINE_S = 30.0
STOP_GRACE_S = 10.0
"""After the polite signal; then SIGKILL."""

STDERR_TAIL_BYTES = 4_000


class ProcessStartError(RuntimeError):
    """A process of the cluster ended, or said nothing in time, before it was ready.

    The message has the end of its stderr.
    """


class ProcessHandle(Protocol):
    """What can be done with a process, whoever its parent is."""

    pid: int

    def send(self, signal_number: int) -> None:
        """Signals the process; nothing happens when it has ended."""
        ...

    def wait(self, timeout_s: float) -> int | None:
        """Exit status (negative: signal number), or None when it still runs after `timeout_s`."""
        ...


class _Lifeline:
    """One end of a pipe; the process that has the other ends when this one is cut.

    A handle that nobody kept, as after an interrupt between the start and whoever was to keep it,
    cuts it too: a process that nobody can end any more must not stay.
    """

    _descriptor: int | None = None

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def cut(self) -> None:
        """Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self.cut()


class ChildProcess:
    """A process that this one started and reaps.

    Args:
        module: run as `python -m module`.
        arguments: its flags.
        log_file: stdout and stderr are appended here.
        env: on top of this process's environment.
        die_with_parent: the child gets a pipe's end whose other end lives here, and ends when this
            process does, however it ends, or when nobody has this object any more.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        log_file: Path,
        env: Mapping[str, str] | None = None,
        die_with_parent: bool = True,
    ) -> None:
        self._lifeline: _Lifeline | None = None
        pass_fds: tuple[int, ...] = ()
        command = [sys.executable, "-m", module, *arguments]
        reader: int | None = None
        if die_with_parent:
            reader, writer = os.pipe()
            self._lifeline = _Lifeline(writer)
            pass_fds = (reader,)
            command += ["--die-with-parent-fd", str(reader)]
        try:
            with log_file.open("ab") as log:
                # Its own session: Ctrl-C in the terminal reaches only us, and we end it in order.
                self._process = subprocess.Popen(  # noqa: S603 - our own module, our own flags
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **(env or {})},
                    pass_fds=pass_fds,
                    start_new_session=True,
                )
        except BaseException:
            self._cut_lifeline()
            raise
        finally:
            if reader is not None:
                os.close(reader)
        self.pid = self._process.pid

    def send(self, signal_number: int) -> None:
        """Signals the process; nothing happens when it has ended."""
        self._process.send_signal(signal_number)

    def wait(self, timeout_s: float) -> int | None:
        """Exit status, or None when it still runs after `timeout_s`."""
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self._cut_lifeline()
        return status

    def _cut_lifeline(self) -> None:
        if self._lifeline is not None:
            self._lifeline.cut()


def stop(
    process: ProcessHandle, grace_s: float = STOP_GRACE_S, signal_number: int = signal.SIGTERM
) -> int | None:
    """A polite signal, then SIGKILL after `grace_s`; waits for the end, returns the exit status."""
    process.send(signal_number)
    status = process.wait(grace_s)
    if status is None:
        process.send(signal.SIGKILL)
        status = process.wait(STOP_GRACE_S)
    return status


def kill(process: ProcessHandle) -> int | None:
    """SIGKILL; waits for the end."""
    process.send(signal.SIGKILL)
    return process.wait(STOP_GRACE_S)


def wait_for_port_file(
    what: str,
    process: ProcessHandle,
    port_file: Path,
    log_tail: Callable[[], str],
    deadline_s: float = START_DEADLINE_S,
) -> str:
    """The text of the port file, once `process` wrote it.

    The process is killed when it is late.

    Raises:
        ProcessStartError: it ended first, or was late.
    """
    end = time.monotonic() + deadline_s
    while True:
        # The process renames a complete file into place, so what exists is whole.
        if port_file.exists():
            return port_file.read_text(encoding="utf-8").strip()
        status = process.wait(0)
        if status is not None:
            raise ProcessStartError(f"{what} ended with {describe(status)}{log_tail()}")
        if time.monotonic() > end:
            kill(process)
            raise ProcessStartError(f"{what} was not ready within {deadline_s:g} s{log_tail()}")
        time.sleep(POLL_STEP_S)


def describe(status: int) -> str:
    """`exit code 3` or `signal SIGKILL`."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def tail_of(log_file: Path) -> str:
    """The end of a log for an error message; names the file, also when it is empty."""
    try:
        with log_file.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - STDERR_TAIL_BYTES))
            text = log.read().decode(errors="replace").strip()
    except OSError as error:
        return f"; its log {log_file} cannot be read: {error.strerror}"
    if not text:
        return f"; it wrote nothing to {log_file}"
    return f"; the end of {log_file}:\n{text}"
