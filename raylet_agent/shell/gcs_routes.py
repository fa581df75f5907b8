"""Ways to the GCS: through a relay where one is named, and directly while that one fails."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import grpc
from grpc import aio

from cluster_api.v1 import node_session_pb2_grpc
from cluster_common import limits as common_limits
from cluster_common.transport.endpoints import make_channel
from cluster_common.transport.logs import get_logger
from raylet_agent import limits

log = get_logger()


class GcsRoutes:
    """Opens session streams. A route that failed before the welcome gives way to the other one.

    Args:
        gcs_address: `host:port` of the GCS.
        via: that of a relay, the preferred way; empty: there is none.
    """

    def __init__(self, gcs_address: str, via: str = "") -> None:
        self._gcs_address = gcs_address
        self._via = via
        self._channels: dict[str, aio.Channel] = {}
        self._pause_s = limits.RELAY_RETURN_S_MIN
        self._ping_interval_s = 0.0
        self._heard_s = 0.0
        self._relayed_since_s: float | None = None
        self._has_told = False
        self.is_relayed = bool(via)

    @property
    def has_relay(self) -> bool:
        """Whether there is a choice."""
        return bool(self._via)

    @property
    def welcome_s(self) -> float | None:
        """How long a welcome over the present route may take; None: the GCS is waited for."""
        return limits.RELAY_WELCOME_S if self.is_relayed else None

    async def connect(self) -> Any:
        """A stream over the present route; a relay that does not answer at once is passed by."""
        if self.is_relayed and not await self._answers(self._via, limits.RELAY_DIAL_S):
            self.failed("the relay does not answer")
        return self.stream(self._via if self.is_relayed else self._gcs_address)

    def stream(self, address: str = "") -> Any:
        """A stream to this address; default: that of the GCS."""
        channel = self._channel(address or self._gcs_address)
        return node_session_pb2_grpc.NodeSessionServiceStub(channel).Connect()

    async def reaches_gcs(self, timeout_s: float) -> bool:
        """Whether the GCS is connected, or becomes so in time."""
        return await self._answers(self._gcs_address, timeout_s, patient=True)

    def welcomed(self, ping_interval_ms: int) -> None:
        """The last stream carries a session now."""
        self._has_told = False
        self._ping_interval_s = ping_interval_ms / 1_000
        self._relayed_since_s = time.monotonic() if self.is_relayed else None

    def heard(self) -> None:
        """Something came from the GCS."""
        self._heard_s = time.monotonic()

    def failed(self, reason: str) -> None:
        """The last stream ended before a welcome came, or its relay is silent."""
        if not self._via:
            return
        if self._relayed_since_s is not None:
            if time.monotonic() - self._relayed_since_s > limits.RELAY_RETURN_S_MAX:
                self._pause_s = limits.RELAY_RETURN_S_MIN
            self._relayed_since_s = None
        address = self._via if self.is_relayed else self._gcs_address
        self.is_relayed = not self.is_relayed
        # Once for each loss: while the GCS is away both ways fail in turn.
        tell = log.debug if self._has_told else log.warning
        self._has_told = True
        tell("route_to_gcs_failed", address=address, reason=reason)

    async def until_other_is_better(self, ask: Callable[[], None]) -> str:
        """Returns when a new session should take the other route, and why. Only with a relay.

        Args:
            ask: sends something that the GCS answers.
        """
        if self.is_relayed and self._ping_interval_s:
            await self._until_silent(ask)
            self.failed("it is silent")
            return "the relay is silent"
        if self.is_relayed:
            await asyncio.Event().wait()  # nobody is pinged: there is nothing to go by
        await self._until_relay_answers()
        self.is_relayed = True
        return "the relay answers"

    async def _until_silent(self, ask: Callable[[], None]) -> None:
        """A relay that hangs keeps its connections: only an answer from the GCS tells."""
        patience_s = self._ping_interval_s * limits.RELAY_ASK_SHARE
        answer_s = self._ping_interval_s * (limits.RELAY_SILENT_SHARE - limits.RELAY_ASK_SHARE)
        while True:
            quiet_s = time.monotonic() - self._heard_s
            if quiet_s < patience_s:
                await asyncio.sleep(patience_s - quiet_s)
                continue
            ask()
            heard_s = self._heard_s
            await asyncio.sleep(answer_s)
            if self._heard_s == heard_s:
                return

    async def _until_relay_answers(self) -> None:
        """Looks after a while, which grows with each time."""
        while True:
            await asyncio.sleep(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads a rack's nodes, no secret
            self._pause_s = min(2 * self._pause_s, limits.RELAY_RETURN_S_MAX)
            if await self._answers(self._via, limits.RELAY_DIAL_S, patient=True):
                return

    async def close(self) -> None:
        """Ends all streams."""
        for channel in self._channels.values():
            await channel.close()

    def _channel(self, address: str) -> aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = make_channel(
                address, keepalive_ms=common_limits.SESSION_KEEPALIVE_MS
            )
        return channel

    async def _answers(self, address: str, timeout_s: float, *, patient: bool = False) -> bool:
        """Whether a gRPC peer is there; unless patient, the first failure says that it is not."""
        channel = self._channel(address)
        given_up = {grpc.ChannelConnectivity.SHUTDOWN}
        if not patient:
            given_up.add(grpc.ChannelConnectivity.TRANSIENT_FAILURE)
        try:
            async with asyncio.timeout(timeout_s):
                state = channel.get_state(try_to_connect=True)
                while state is not grpc.ChannelConnectivity.READY:
                    if state in given_up:
                        return False
                    await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
        except TimeoutError:
            return False
        return True
