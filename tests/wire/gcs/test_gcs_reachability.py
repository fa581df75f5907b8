"""One dial: only a refusal says that the process is gone."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gcs_service import limits
from gcs_service.shell.reachability import Dial, dial


async def test_a_listening_port_answers():
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await dial(f"127.0.0.1:{port}") is Dial.ANSWERED
    server.close()
    await server.wait_closed()
    assert await dial(f"127.0.0.1:{port}") is Dial.REFUSED


async def test_a_full_backlog_is_silence_not_death(monkeypatch):
    monkeypatch.setattr(limits, "PROBE_TIMEOUT_MS", 50)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        address = busy.getsockname()
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)
        assert await dial(f"127.0.0.1:{address[1]}") is Dial.SILENT
        for one in waiting:
            one.close()


@pytest.mark.parametrize("address", ["", "nonsense", "127.0.0.1:port"])
async def test_an_address_that_is_none_proves_nothing(address):
    assert await dial(address) is Dial.SILENT
