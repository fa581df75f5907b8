"""What passes between the fleet and the GCS, counted; the streams themselves are gRPC's."""

from __future__ import annotations

from typing import Any

import grpc

from cluster_api.v1 import node_session_pb2 as n


class Traffic:
    """Counters over all sessions, seen from the GCS: `in` is what the agents sent."""

    def __init__(self) -> None:
        self.messages_in = 0
        self.items_in = 0
        self.bytes_in = 0
        self.messages_out = 0
        self.items_out = 0
        self.bytes_out = 0

    def as_dict(self) -> dict[str, int]:
        """The counters by name."""
        return dict(vars(self))


class CountedCall:
    """One `Connect` stream."""

    def __init__(self, call: Any, traffic: Traffic) -> None:
        self._call = call
        self._traffic = traffic

    async def write(self, frame: n.AgentFrame) -> None:
        """Sends a frame."""
        traffic = self._traffic
        traffic.messages_in += 1
        traffic.items_in += len(frame.items)
        traffic.bytes_in += frame.ByteSize()
        await self._call.write(frame)

    async def read(self) -> Any:
        """The next frame, or EOF."""
        frame = await self._call.read()
        if frame is not grpc.aio.EOF:
            traffic = self._traffic
            traffic.messages_out += 1
            traffic.items_out += len(frame.items)
            traffic.bytes_out += frame.ByteSize()
        return frame

    async def done_writing(self) -> None:
        """No more frames from here."""
        await self._call.done_writing()

    def cancel(self) -> bool:
        """Ends the stream from here."""
        return bool(self._call.cancel())

    async def code(self) -> grpc.StatusCode:
        """How it ended."""
        code: grpc.StatusCode = await self._call.code()
        return code

    async def details(self) -> str:
        """Why it ended."""
        return str(await self._call.details())
