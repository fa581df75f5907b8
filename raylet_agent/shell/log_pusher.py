"""Streams of worker output to drivers: batched, bounded, with what was lost counted."""

from __future__ import annotations

import asyncio
from collections import deque

import grpc

from cluster_api.v1 import core_worker_pb2 as c
from cluster_api.v1 import core_worker_pb2_grpc
from cluster_common.transport.endpoints import make_channel
from cluster_common.transport.logs import get_logger
from cluster_common.transport.task_keeper import TaskKeeper
from raylet_agent import limits

log = get_logger()


class _Driver:
    """Lines that wait for one driver."""

    def __init__(self) -> None:
        self.batches: deque[c.LogLines] = deque()
        self.lines = 0
        self.dropped = 0
        self.wake = asyncio.Event()

    def put(self, batch: c.LogLines) -> None:
        self.batches.append(batch)
        self.lines += len(batch.lines)
        while self.lines > limits.LOG_LINES_QUEUED_MAX and len(self.batches) > 1:
            lost = self.batches.popleft()
            self.lines -= len(lost.lines)
            self.dropped += len(lost.lines)
        self.wake.set()

    def take(self) -> c.LogFrame:
        """The next frame."""
        frame = c.LogFrame()
        lines = 0
        while self.batches and lines < limits.LOG_BATCH_LINES_MAX:
            batch = self.batches.popleft()
            if self.dropped:
                batch.dropped = self.dropped
                self.dropped = 0
            lines += len(batch.lines)
            frame.batches.append(batch)
        self.lines -= lines
        if not self.batches:
            self.wake.clear()
        return frame


class LogPusher:
    """One stream per driver with output; it closes when unused and is forgotten when it fails."""

    def __init__(self, keeper: TaskKeeper) -> None:
        self._keeper = keeper
        self._drivers: dict[str, _Driver] = {}
        self._gone_at: dict[str, float] = {}

    @property
    def longest_queue(self) -> int:
        """Lines that wait for the driver that reads most slowly."""
        return max((driver.lines for driver in self._drivers.values()), default=0)

    def push(self, address: str, batch: c.LogLines) -> None:
        """Queues lines for the driver at `address`."""
        driver = self._drivers.get(address)
        if driver is None:
            if self._is_gone(address):
                return
            driver = self._drivers[address] = _Driver()
            self._keeper.start(self._run(address, driver), f"logs:{address}")
        driver.put(batch)

    def _is_gone(self, address: str) -> bool:
        """A driver that took no output is not tried again at each line of what outlives it."""
        gone_at = self._gone_at.get(address)
        if gone_at is None:
            return False
        if asyncio.get_running_loop().time() - gone_at < limits.LOG_PUSH_RETRY_S:
            return True
        del self._gone_at[address]
        return False

    def _is_left_alone(self, address: str) -> None:
        now = asyncio.get_running_loop().time()
        recent = {a: at for a, at in self._gone_at.items() if now - at < limits.LOG_PUSH_RETRY_S}
        self._gone_at = recent | {address: now}

    async def _run(self, address: str, driver: _Driver) -> None:
        channel = make_channel(address)
        try:
            call = core_worker_pb2_grpc.CoreWorkerServiceStub(channel).PushLogs()
            while True:
                try:
                    async with asyncio.timeout(limits.LOG_PUSH_LINGER_S):
                        await driver.wake.wait()
                except TimeoutError:
                    await call.done_writing()
                    return
                await call.write(driver.take())
        except (grpc.RpcError, asyncio.InvalidStateError):
            log.info("driver_takes_no_output", address=address)
            self._is_left_alone(address)
        finally:
            if self._drivers.get(address) is driver:
                del self._drivers[address]
            await channel.close()
