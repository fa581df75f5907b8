"""The thread on which an owner's client runs."""

from __future__ import annotations

import asyncio

import pytest

from driver_client.shell.io_thread import IoThread


@pytest.fixture
def io():
    io = IoThread("test-io")
    io.start()
    yield io
    io.close(asyncio.sleep(0))
