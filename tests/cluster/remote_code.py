"""Remote functions and classes that several test files use."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import shoal

GATE_DEADLINE_S = 60.0


def pass_gate(path: str) -> None:
    """Runs on a worker: goes on once the file exists."""
    end = time.monotonic() + GATE_DEADLINE_S
    while not Path(path).exists():
        if time.monotonic() > end:
            raise TimeoutError(f"gate {path} stayed shut")
        time.sleep(0.002)


@shoal.remote(num_cpus=0)
def gated(path: str, value: object = None) -> object:
    pass_gate(path)
    return value


@shoal.remote
def increment(number: int) -> int:
    return number + 1


@shoal.remote(num_cpus=0)
class Counter:
    """Plain state, and ways to end."""

    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, amount: int = 1) -> int:
        self.value += amount
        return self.value

    def pid(self) -> int:
        return os.getpid()

    def node(self) -> str:
        return shoal.get_runtime_context().get_node_id()

    def crash(self) -> None:
        os._exit(1)

    def gated(self, path: str) -> int:
        pass_gate(path)
        return os.getpid()

    def fail(self, text: str) -> None:
        raise ValueError(text)


@shoal.remote(num_cpus=0)
class Meeting:
    """Calls that only return when `size` of them are inside at once."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)

    def join(self) -> int:
        return self.barrier.wait(timeout=GATE_DEADLINE_S)


@shoal.remote(num_cpus=0)
class AsyncMeeting:
    """The same with coroutines on one loop."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.inside = 0
        self.everyone = asyncio.Event()

    async def join(self) -> int:
        self.inside += 1
        if self.inside == self.size:
            self.everyone.set()
        await asyncio.wait_for(self.everyone.wait(), GATE_DEADLINE_S)
        return self.inside
