"""What a worker prints: into its log files, and as lines to the driver of its job."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from cluster_api.v1 import core_worker_pb2 as c
from raylet_agent import limits

PushLines = Callable[[str, c.LogLines], None]


class OutputStream:
    """One pipe of one worker. Reads when there is something; nothing polls."""

    def __init__(
        self, descriptor: int, path: Path, on_lines: Callable[[list[bytes]], None]
    ) -> None:
        self._descriptor = descriptor
        self._path = path
        self._on_lines = on_lines
        self._rest = b""
        self._file = -1
        self._written_bytes = 0
        self.tail = b""
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self._read_once)

    @property
    def written(self) -> tuple[Path, int] | None:
        """Its file and how many bytes went there; None: nothing was ever said."""
        return (self._path, self._written_bytes) if self._written_bytes else None

    def close(self) -> None:
        """Takes what is left and closes; a last line without an end counts as one."""
        # Bounded: a stranger that inherited the pipe may write for ever.
        for _ in range(limits.LOG_LAST_READS_MAX):
            if not self._read_once():
                break
        self._close_pipe()
        if self._rest:
            self._on_lines([self._rest])
            self._rest = b""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read_once(self) -> bool:
        """Takes one piece: a chatty worker must not keep the loop. False: nothing is there."""
        if self._descriptor < 0:
            return False
        try:
            data = os.read(self._descriptor, limits.LOG_READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close_pipe()
            return False
        self._take(data)
        return True

    def _close_pipe(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _take(self, data: bytes) -> None:
        self._append(data)
        self.tail = (self.tail + data)[-limits.STDERR_TAIL_BYTES :]
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > limits.LOG_LINE_BYTES_MAX:
            lines.append(self._rest)
            self._rest = b""
        if lines:
            self._on_lines(lines)

    def _append(self, data: bytes) -> None:
        if self._file < 0:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._file = os.open(self._path, flags, 0o644)
        if self._written_bytes < limits.LOG_FILE_BYTES_MAX:
            self._written_bytes += len(data)
            if self._written_bytes >= limits.LOG_FILE_BYTES_MAX:
                data += b"\n[the log file is full, later output is not kept]\n"
            os.write(self._file, data)


class WorkerOutput:
    """Both streams of one worker, and whose output it is."""

    def __init__(
        self,
        worker_id: bytes,
        pipes: tuple[int, int],
        folder: Path,
        node_name: str,
        push: PushLines,
    ) -> None:
        self._worker_id = worker_id
        self._node_name = node_name
        self._push = push
        self.pid = 0
        self._job_id = b""
        self._name = ""
        self._driver_address = ""
        stem = f"worker-{worker_id.hex()}"
        self._out = OutputStream(pipes[0], folder / f"{stem}.out", self._out_lines)
        self._error = OutputStream(pipes[1], folder / f"{stem}.err", self._error_lines)

    def label(self, job_id: bytes, name: str, driver_address: str) -> None:
        """Output from now on belongs to this work."""
        self._job_id, self._name, self._driver_address = job_id, name, driver_address

    def close(self) -> str:
        """The worker is gone; returns the end of its standard error."""
        self._out.close()
        self._error.close()
        return self._error.tail.decode(errors="replace").strip()

    def files(self) -> list[tuple[Path, int]]:
        """Its log files and their sizes in bytes."""
        found = (self._out.written, self._error.written)
        return [each for each in found if each is not None]

    def _out_lines(self, lines: list[bytes]) -> None:
        self._send(lines, is_error=False)

    def _error_lines(self, lines: list[bytes]) -> None:
        self._send(lines, is_error=True)

    def _send(self, lines: list[bytes], *, is_error: bool) -> None:
        if not self._driver_address:
            return
        for start in range(0, len(lines), limits.LOG_BATCH_LINES_MAX):
            part = lines[start : start + limits.LOG_BATCH_LINES_MAX]
            batch = c.LogLines(
                job_id=self._job_id,
                worker_id=self._worker_id,
                pid=self.pid,
                name=self._name,
                node_name=self._node_name,
                is_error=is_error,
                lines=[
                    line[: limits.LOG_LINE_BYTES_MAX].rstrip(b"\r").decode(errors="replace")
                    for line in part
                ],
            )
            self._push(self._driver_address, batch)
