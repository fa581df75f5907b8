"""The process that forks workers: it imported everything they need and never started gRPC.

Single-threaded, no event loop, reached over one socket pair. It is the parent of all workers, so it
alone knows for certain when one is gone, and kills by process group before it reaps: a process id
can not be taken over by a stranger meanwhile. When the agent's end of the socket closes, everything
below is killed. Descendants that left their group come back here as orphans and go with their
worker.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NoReturn

from cluster_common.worker_start import WorkerStart
from raylet_agent.shell import process_control
from raylet_agent.shell.fork_messages import (
    PACKET_BYTES_MAX,
    Build,
    Exited,
    Kill,
    Report,
    Spawn,
    Spawned,
    decode_order,
    encode,
)
from raylet_agent.shell.worker_birth import WORKER_VARIABLE, be_builder, be_worker

Entry = Callable[[WorkerStart], None]
_KILL_ROUNDS_MAX = 200
_DESCRIPTORS_MAX = 65_536
_preloaded: frozenset[str] = frozenset()


def preloaded() -> frozenset[str]:
    """Modules that forked workers have already: names of one and two parts, no standard ones."""
    return _preloaded


def start_fork_server(entry: Entry) -> tuple[socket.socket, int]:
    """Forks the fork server; call it before anything starts threads or gRPC.

    Returns:
        The agent's end of the socket pair and the fork server's process id.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    gc.collect()
    gc.freeze()
    global _preloaded  # noqa: PLW0603 - written once, when this process forks its one server
    _preloaded = _modules_loaded()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        return ours, pid
    status = 1
    try:
        ours.close()
        _close_others(theirs.fileno())
        ForkServer(theirs, entry, parent).run()
        status = 0
    except BaseException:  # noqa: BLE001 - nothing may unwind into the agent's frames below
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _modules_loaded() -> frozenset[str]:
    two = {".".join(name.split(".")[:2]) for name in sys.modules}
    found = {*two, *(name.partition(".")[0] for name in two)}
    return frozenset(n for n in found if n.partition(".")[0] not in sys.stdlib_module_names)


def _close_others(keep: int) -> None:
    """Closes what the agent was given, above all the descriptor that tells its parent's end."""
    os.closerange(3, keep)
    os.closerange(keep + 1, keep + _DESCRIPTORS_MAX)


class ForkServer:
    """The loop. Args: the socket to the agent, what a worker runs, the agent's process id."""

    def __init__(self, sock: socket.socket, entry: Entry, agent_pid: int) -> None:
        self._sock = sock
        self._entry = entry
        self._agent_pid = agent_pid
        self._workers: dict[int, bytes] = {}
        self._pids: dict[bytes, int] = {}

    def run(self) -> None:
        """Serves until the agent is gone; then nothing below is alive."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _noted)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        process_control.adopt_orphans()
        process_control.die_with_parent(signal.SIGTERM, self._agent_pid)
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        poll.register(wake_read, select.POLLIN)
        while os.getppid() == self._agent_pid:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if wake_read in ready:
                with suppress(BlockingIOError):
                    os.read(wake_read, 4096)
                self._reap()
            if self._sock.fileno() in ready and not self._serve_one():
                break
        self._end_all()

    def _serve_one(self) -> bool:
        """One order of the agent; False when it is gone."""
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._sock, PACKET_BYTES_MAX, 2)
        except ConnectionResetError:
            return False
        if not packet:
            return False
        order = decode_order(packet)
        if isinstance(order, Spawn):
            start, entry = order.start, self._entry
            self._spawn(start.worker_id, descriptors, partial(be_worker, start, entry, descriptors))
        elif isinstance(order, Build):
            self._spawn(order.worker_id, descriptors, partial(be_builder, order, descriptors))
        else:
            self._kill(order)
        return True

    def _spawn(self, worker_id: bytes, descriptors: list[int], live: Callable[[int], int]) -> None:
        """Forks; the child runs `live` with our process id, and ends with its status."""
        server_pid = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            for descriptor in descriptors:
                os.close(descriptor)
            self._report(Exited(worker_id, 0, 1, f"cannot fork: {error}"))
            return
        if pid == 0:
            _child(live, server_pid)
        for descriptor in descriptors:
            os.close(descriptor)
        # Both sides do it: whoever is first, the group exists before anybody kills it.
        with suppress(OSError):
            os.setpgid(pid, pid)
        self._workers[pid] = worker_id
        self._pids[worker_id] = pid
        self._report(Spawned(worker_id, pid))

    def _kill(self, order: Kill) -> None:
        pid = self._pids.get(order.worker_id)
        if pid is not None:
            process_control.kill_group(pid)

    def _reap(self) -> None:
        workers_ended = False
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                ended = None
            if ended is None:
                break
            pid = ended.si_pid
            worker_id = self._workers.pop(pid, None)
            if worker_id is not None:
                # The zombie still holds the group's number: what is left of the group goes now.
                process_control.kill_group(pid)
            _, status = os.waitpid(pid, 0)
            if worker_id is not None:
                workers_ended = True
                del self._pids[worker_id]
                self._report(Exited(worker_id, pid, os.waitstatus_to_exitcode(status)))
        if workers_ended:
            self._kill_orphans(everything=False)

    def _kill_orphans(self, *, everything: bool) -> None:
        """Descendants that left their group: those of ended workers, or all."""
        living = {worker_id.hex() for worker_id in self._pids}
        for pid in process_control.children():
            if pid in self._workers:
                continue
            maker = process_control.environment_value(pid, WORKER_VARIABLE)
            if everything or (maker is not None and maker not in living):
                process_control.kill_group(pid)
                process_control.kill(pid)

    def _end_all(self) -> None:
        for pid in list(self._workers):
            process_control.kill_group(pid)
        for _ in range(_KILL_ROUNDS_MAX):
            if not process_control.children():
                return
            self._kill_orphans(everything=True)
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is not None:
                process_control.kill_group(ended.si_pid)
                os.waitpid(ended.si_pid, 0)
                self._workers.pop(ended.si_pid, None)

    def _report(self, report: Report) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._sock.send(encode(report))


def _child(live: Callable[[int], int], parent: int) -> NoReturn:
    status = 1
    try:
        status = live(parent)
    except BaseException:  # noqa: BLE001 - nothing may unwind into the fork server's frames
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _noted(_number: int, _frame: object) -> None:
    """The wake-up pipe tells the loop; a handler must exist for the pipe to be written."""
