"""The agent's side of the fork server."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable

from cluster_common.transport.logs import get_logger
from cluster_common.worker_start import WorkerStart
from raylet_agent.shell.build_orders import BuildRecipe
from raylet_agent.shell.fork_messages import (
    PACKET_BYTES_MAX,
    Build,
    Exited,
    Kill,
    Order,
    Report,
    Spawn,
    decode_report,
    encode,
)

log = get_logger()


class ForkClient:
    """Sends orders, receives reports; everything on the loop's thread.

    Args:
        sock: the agent's end of the pair.
        on_report: told of each report.
        on_lost: told when the fork server is gone (the agent cannot go on without).
    """

    def __init__(
        self,
        sock: socket.socket,
        on_report: Callable[[Report], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._sock = sock
        self._on_report = on_report
        self._on_lost = on_lost
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._writing = False
        sock.setblocking(False)  # noqa: FBT003 - the socket's signature

    def open(self) -> None:
        """Starts to listen."""
        asyncio.get_running_loop().add_reader(self._sock.fileno(), self._readable)

    def spawn(self, start: WorkerStart) -> tuple[int, int] | None:
        """Orders a worker.

        Returns:
            Read ends of its standard output and error, None when no descriptors are left.
        """
        return self._send_with_pipes(Spawn(start), start.worker_id)

    def build(self, build_id: bytes, recipe: BuildRecipe) -> tuple[int, int] | None:
        """Orders a builder; returns as `spawn` does."""
        return self._send_with_pipes(Build(build_id, recipe), build_id)

    def _send_with_pipes(self, order: Order, process_id: bytes) -> tuple[int, int] | None:
        opened: list[int] = []
        try:
            opened += os.pipe()
            opened += os.pipe()
        except OSError as error:
            for descriptor in opened:
                os.close(descriptor)
            self._on_report(Exited(process_id, 0, 1, f"cannot make pipes: {error}"))
            return None
        out_read, out_write, error_read, error_write = opened
        self._send(order, [out_write, error_write])
        return out_read, error_read

    def kill(self, worker_id: bytes) -> None:
        """Orders the end of a worker's process group."""
        self._send(Kill(worker_id), [])

    def close(self) -> None:
        """Closes the pair: the fork server kills everything below and ends."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._sock.fileno())
        if self._writing:
            loop.remove_writer(self._sock.fileno())
        while self._unsent:
            for descriptor in self._unsent.popleft()[1]:
                os.close(descriptor)
        self._sock.close()

    def _send(self, order: Order, descriptors: list[int]) -> None:
        self._unsent.append((encode(order), descriptors))
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._unsent:
            packet, descriptors = self._unsent[0]
            try:
                socket.send_fds(self._sock, [packet], descriptors)
            except BlockingIOError:
                if not self._writing:
                    self._writing = True
                    loop.add_writer(self._sock.fileno(), self._flush)
                return
            except (BrokenPipeError, ConnectionResetError):
                self._on_lost()
                return
            self._unsent.popleft()
            for descriptor in descriptors:
                os.close(descriptor)
        if self._writing:
            self._writing = False
            loop.remove_writer(self._sock.fileno())

    def _readable(self) -> None:
        while True:
            try:
                packet = self._sock.recv(PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            except ConnectionResetError:
                packet = b""
            if not packet:
                asyncio.get_running_loop().remove_reader(self._sock.fileno())
                self._on_lost()
                return
            self._on_report(decode_report(packet))
