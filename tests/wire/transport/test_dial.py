"""One dial: only a refusal says that the process is gone."""

from __future__ import annotations

import asyncio
import socket

import pytest

from cluster_common.transport.dial import Dial, dial

SOON_S = 0.05
LONG_S = 10.0


async def test_a_listening_port_answers():
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await dial(f"127.0.0.1:{port}", LONG_S) is Dial.ANSWERED
    server.close()
    await server.wait_closed()
    assert await dial(f"127.0.0.1:{port}", LONG_S) is Dial.REFUSED


async def test_a_full_backlog_is_silence_not_death():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        address = busy.getsockname()
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)
        assert await dial(f"127.0.0.1:{address[1]}", SOON_S) is Dial.SILENT
        for one in waiting:
            one.close()


@pytest.mark.parametrize("address", ["", "nonsense", "127.0.0.1:port"])
async def test_an_address_that_is_none_proves_nothing(address):
    assert await dial(address, LONG_S) is Dial.SILENT
