"""Connections to other processes: one for each address, however many streams go over it.

A channel costs several times what a stream does. Streams share an address when a worker is leased
again soon, and where one port answers for many workers (a fleet).
"""

from __future__ import annotations

from typing import Any

from grpc import aio

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_common.transport.endpoints import make_channel

_CONNECT = f"/{pb.DESCRIPTOR.services_by_name['CoreWorkerService'].full_name}/Connect"


class _Shared:
    __slots__ = ("channel", "connect", "streams")

    def __init__(self, channel: aio.Channel) -> None:
        self.channel = channel
        # Not the whole stub: it would make a callable for each method of the service.
        self.connect: Any = channel.stream_stream(
            _CONNECT,
            request_serializer=pb.PeerFrame.SerializeToString,
            response_deserializer=pb.PeerReplyFrame.FromString,
        )
        self.streams = 0


class PeerChannels:
    """Counts the streams of each channel; the last one closes it. I/O thread only."""

    def __init__(self) -> None:
        self._shared: dict[str, _Shared] = {}

    def __len__(self) -> int:
        return len(self._shared)

    def open(self, address: str) -> Any:
        """A new `Connect` stream; each needs its `closed`."""
        shared = self._shared.get(address)
        if shared is None:
            shared = self._shared[address] = _Shared(make_channel(address, own_connection=True))
        shared.streams += 1
        return shared.connect()

    async def closed(self, address: str) -> None:
        """One stream is over."""
        shared = self._shared[address]
        shared.streams -= 1
        if shared.streams == 0:
            del self._shared[address]
            await shared.channel.close()
