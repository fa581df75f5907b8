"""This process's channel to the GCS and the unary calls on it; bounded retry while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
from grpc import aio

from cluster_api.v1 import autoscaler_pb2_grpc, gcs_pb2_grpc, placement_groups_pb2_grpc
from cluster_common.transport.cluster_mark import MarkedChannel, reason_of
from cluster_common.transport.endpoints import make_channel
from driver_client import exceptions, limits

Response = TypeVar("Response")

_RETRIED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


class GcsLink:
    """Stubs of all GCS services. I/O thread only."""

    def __init__(self, address: str, cluster_id: bytes = b"") -> None:
        self.address = address
        self.refusal = ""
        """Why this process has nothing to ask any more; every call raises it."""
        self.on_other_cluster: Callable[[], None] = lambda: None
        """Called once when another cluster's GCS listens there now; `refusal` says so."""
        self.channel = MarkedChannel(make_channel(address, own_connection=True), cluster_id)
        self.nodes = gcs_pb2_grpc.NodeServiceStub(self.channel)
        self.kv = gcs_pb2_grpc.KvServiceStub(self.channel)
        self.jobs = gcs_pb2_grpc.JobServiceStub(self.channel)
        self.actors = gcs_pb2_grpc.ActorServiceStub(self.channel)
        self.status = gcs_pb2_grpc.StatusServiceStub(self.channel)
        self.groups = placement_groups_pb2_grpc.PlacementGroupServiceStub(self.channel)
        self.autoscaler = autoscaler_pb2_grpc.AutoscalerStateServiceStub(self.channel)

    def belong_to(self, cluster_id: bytes) -> None:
        """From now on no GCS of another cluster answers."""
        self.channel.belong_to(cluster_id)

    def heed(self, error: BaseException) -> bool:
        """Whether a call or stream failed since another cluster's GCS listens there now."""
        why = reason_of(error) if isinstance(error, aio.AioRpcError) else ""
        if why and not self.refusal:
            self.refusal = (
                f"the cluster of this process is gone, the GCS at {self.address} is another one's "
                f"({why}); call shoal.shutdown(), then shoal.init() begins a new job"
            )
            self.on_other_cluster()
        return bool(why)

    async def call(
        self,
        method: Callable[..., Awaitable[Response]],
        request: Any,
        *,
        timeout_s: float = limits.GCS_CALL_TIMEOUT_S,
        reconnect_s: float = limits.GCS_RECONNECT_S,
    ) -> Response:
        """One unary call; repeated while the GCS cannot be reached, for `reconnect_s` at most.

        Raises:
            exceptions.RaySystemError: the cluster declared this process dead, or is gone itself;
                says why.
            exceptions.RpcError: not reachable in that time, or refused; names the address.
            exceptions.AuthenticationError: no token, or the wrong one.
            ValueError: the GCS found the request wrong.
        """
        if self.refusal:
            raise exceptions.RaySystemError(self.refusal)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + reconnect_s
        delay = limits.RECONNECT_DELAY_MIN_S
        while True:
            try:
                return await method(request, timeout=timeout_s)
            except aio.AioRpcError as error:
                if self.heed(error):
                    raise exceptions.RaySystemError(self.refusal) from None
                if error.code() not in _RETRIED or loop.time() >= deadline:
                    raise _translate(error, self.address, reconnect_s) from None
            await asyncio.sleep(delay)
            delay = min(delay * 2, limits.RECONNECT_DELAY_MAX_S)


def _translate(error: aio.AioRpcError, address: str, waited_s: float) -> Exception:
    code = error.code()
    details = error.details()
    if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION):
        return ValueError(details)
    if code == grpc.StatusCode.UNAUTHENTICATED:
        return exceptions.AuthenticationError(f"the GCS at {address} refused: {details}")
    if code in _RETRIED:
        return exceptions.RpcError(
            f"the GCS at {address} could not be reached for {waited_s:g} s ({details}); "
            f"is it running there? `shoal status --address {address}` tells",
            code.name,
        )
    text = f"the GCS at {address} answered {code.name}: {details}"
    return exceptions.RpcError(text, code.name)
