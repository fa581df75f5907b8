"""Forks whole agents from one warmed process: many nodes on one machine, fast and small.

`python -m raylet_agent.launcher` imports everything once, never starts gRPC, and takes one JSON
object a line on standard input:

    {"id": 1, "argv": ["--gcs-address", "127.0.0.1:6380"], "env": {"NAME": "x"}, "log": "a.log"}

`argv` are the agent's options; `env` and `log` (a file for its standard error) may be missing. It
answers one JSON object a line: `{"id": 1, "pid": 4711}` or `{"id": 1, "error": "..."}`, and
`{"exited": 4711, "status": 0}` when an agent ended (negative: a signal). At the end of its input,
or at SIGTERM, all agents are stopped, then it ends. Agents die with it in any case.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import Any, NoReturn, cast

import click
import msgspec

from cluster_common.transport import auth, faults, tls
from cluster_common.transport.logs import preload as preload_logs
from raylet_agent import app, limits
from raylet_agent import settings as s
from raylet_agent.shell import process_control
from raylet_agent.shell.agent_process import import_modules

_INPUT_BYTES = 64 * 1024
_LINE_BYTES_MAX = 1024 * 1024
_STOPPING = (signal.SIGTERM, signal.SIGINT)


class Launch(msgspec.Struct, frozen=True):
    """One order."""

    id: int | str
    argv: list[str]
    env: dict[str, str] = {}
    log: str = ""


class Launcher:
    """The loop: orders in, process ids and endings out."""

    def __init__(self) -> None:
        self._agents: dict[int, int | str] = {}
        self._rest = b""
        self._asked_to_stop = False

    def run(self) -> None:
        """Until the input ends or SIGTERM; then no agent is left."""
        wake_read, wake_write = os.pipe()
        for descriptor in (wake_read, wake_write):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, _noted)
        for number in _STOPPING:
            signal.signal(number, self._stop)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(0, select.POLLIN | select.POLLHUP)
        poll.register(wake_read, select.POLLIN)
        while not self._asked_to_stop:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if wake_read in ready:
                _empty(wake_read)
                self._reap()
            if 0 in ready and not self._read():
                break
        self._end_all(poll, wake_read)

    def _stop(self, _number: int, _frame: object) -> None:
        self._asked_to_stop = True

    def _read(self) -> bool:
        data = os.read(0, _INPUT_BYTES)
        if not data:
            return False
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if line.strip():
                self._order(line)
        if len(self._rest) > _LINE_BYTES_MAX:
            self._rest = b""
            _say({"error": f"a line has more than {_LINE_BYTES_MAX} bytes"})
        return True

    def _order(self, line: bytes) -> None:
        try:
            launch = msgspec.json.decode(line, type=Launch)
        except msgspec.DecodeError as error:
            _say({"error": f"not an order: {error}"})
            return
        launcher_pid = os.getpid()
        # Until the child has handlers of its own it would take its signals for the launcher's.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        try:
            pid = os.fork()
            if pid == 0:
                _be_agent(launch, launcher_pid)
        except OSError as error:
            _say({"id": launch.id, "error": f"cannot fork: {error}"})
            return
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        with suppress(OSError):
            os.setpgid(pid, pid)
        self._agents[pid] = launch.id
        _say({"id": launch.id, "pid": pid})

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._agents.pop(pid, None) is not None:
                _say({"exited": pid, "status": os.waitstatus_to_exitcode(status)})

    def _end_all(self, poll: select.poll, wake_read: int) -> None:
        poll.unregister(0)
        for pid in self._agents:
            with suppress(ProcessLookupError):
                # Not SIGTERM: whoever ends the launcher wants no node drained.
                os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + 2 * limits.STOP_GRACE_S
        while self._agents and time.monotonic() < deadline:
            poll.poll(100)
            _empty(wake_read)
            self._reap()
        for pid in list(self._agents):
            process_control.kill_group(pid)
            os.waitpid(pid, 0)


def _be_agent(launch: Launch, launcher_pid: int) -> NoReturn:
    """The forked child: an agent process that differs from one started alone in its parent only."""
    status: int = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        # No KeyboardInterrupt: before the agent has handlers it could surface in a place that
        # swallows it, and the agent would start although it was told to end.
        for number in (signal.SIGCHLD, *_STOPPING):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        process_control.die_with_parent(signal.SIGKILL, launcher_pid)
        _take_streams(launch.log)
        os.environ.update(launch.env)
        auth.forget()
        tls.forget()
        faults.forget()
        app.main(launch.argv)
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001 - nothing may unwind into the launcher's frames
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(status)


def _take_streams(log: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    if log:
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(target, 2)
    os.dup2(2, 1)
    os.closerange(3, 4096)


def _empty(descriptor: int) -> None:
    with suppress(BlockingIOError):
        os.read(descriptor, 4096)


def _say(answer: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):
        os.write(1, json.dumps(answer).encode() + b"\n")


def _noted(_number: int, _frame: object) -> None:
    """The wake-up pipe tells the loop; a handler must exist for the pipe to be written."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--preload", multiple=True, help="Modules to import, by comma or repeated.")
def main(**options: Any) -> None:
    """Forks agents on request; see `python -m pydoc raylet_agent.launcher`."""
    given = cast("tuple[str, ...]", options["preload"]) or s.DEFAULT_PRELOAD
    names = [name.strip() for part in given for name in part.split(",")]
    try:
        import_modules(tuple(filter(None, names)))
        preload_logs()
    except ValueError as error:
        click.echo(f"launcher: {error}", err=True)
        sys.exit(2)
    gc.collect()
    gc.freeze()
    Launcher().run()


if __name__ == "__main__":
    main()
