"""Answers at the address of every agent that serves no leases: the GCS dials it to see if it lives.

One socket on all loopback addresses, bound to the loopback device: nothing outside reaches it.
"""

from __future__ import annotations

import asyncio
import socket

_LOOPBACK_DEVICE = b"lo\0"
_BACKLOG = 4_096


class Presence:
    """The listening socket; whoever connects is let go at once."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _LOOPBACK_DEVICE)
        self._socket.bind(("", 0))
        self._socket.listen(_BACKLOG)
        self._socket.setblocking(False)  # noqa: FBT003 - the socket's signature
        self.port = int(self._socket.getsockname()[1])

    def open(self) -> None:
        """Starts to answer."""
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Connections are refused from now on."""
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        connection.close()
