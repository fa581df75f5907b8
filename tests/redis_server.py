"""A real redis-server of a test: own folder, free port, everything on disk before it answers."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time

import pytest

START_DEADLINE_S = 20.0


class RedisServer:
    """Started at once; `kill` and `start` again keep port and data."""

    def __init__(self, folder):
        self._program = shutil.which("redis-server")
        if self._program is None:
            pytest.skip("redis-server is not installed (Debian package redis-server)")
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process = None
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self._folder,
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
        }
        flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        self._process = subprocess.Popen([self._program, *flags], stdout=subprocess.DEVNULL)
        end = time.monotonic() + START_DEADLINE_S
        while not self._answers():
            assert self._process.poll() is None, "redis-server ended"
            assert time.monotonic() < end, "redis-server does not answer"
            time.sleep(0.01)

    def kill(self):
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as peer:
                peer.sendall(b"PING\r\n")
                return peer.recv(100).startswith(b"+PONG")
        except OSError:
            return False
