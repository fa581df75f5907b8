"""Servers and channels with the options that matter (GRPC_COSTS section 3)."""

from __future__ import annotations

import os
from collections.abc import Sequence

import grpc
from grpc import aio

from cluster_common import limits
from cluster_common.transport import auth, fault_streams, faults

_COMMON: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", limits.GRPC_MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", limits.GRPC_MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", limits.KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", limits.KEEPALIVE_TIMEOUT_MS),
)

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    *_COMMON,
    ("grpc.so_reuseport", 0),
    ("grpc.server.max_pending_requests", limits.SERVER_PENDING_REQUESTS_MAX),
    ("grpc.server.max_pending_requests_hard_limit", limits.SERVER_PENDING_REQUESTS_HARD_MAX),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", limits.KEEPALIVE_MS // 2),
    ("grpc.keepalive_permit_without_calls", 1),
)

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    *_COMMON,
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_retries", 0),
    # Peers of a cluster are reached directly, whatever proxy the environment names for the web.
    ("grpc.enable_http_proxy", 0),
)


def quiet_core() -> None:
    """Keeps gRPC's C core from writing a line for every connection that a stopped peer closes.

    It reads its level at its first use in the process, so this comes before each first use; a level
    that the user set stays.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


def make_server(interceptors: Sequence[aio.ServerInterceptor] = ()) -> aio.Server:
    """An aio server bound to the running loop; add services and ports, then start it.

    It asks for the token when this process has one.
    """
    quiet_core()
    others = [one for one in interceptors if not isinstance(one, auth.TokenInterceptor)]
    ordered = faults.active()
    if ordered is not None:
        others.append(fault_streams.FaultInterceptor(ordered))
    return aio.server(options=SERVER_OPTIONS, interceptors=[*auth.server_interceptors(), *others])


def make_channel(address: str, *, own_connection: bool = False) -> aio.Channel:
    """A channel to `host:port` that shows the token when this process has one.

    `own_connection`: do not share a TCP connection with other channels.
    """
    quiet_core()
    options = CHANNEL_OPTIONS
    if own_connection:
        options = (*options, ("grpc.use_local_subchannel_pool", 1))
    channel = auth.with_token(aio.insecure_channel(address, options=options))
    ordered = faults.active()
    return channel if ordered is None else fault_streams.naming(channel, ordered)


def bind(server: aio.Server, host: str, port: int) -> int:
    """Listens and returns the real port (0: any free one).

    Raises:
        OSError: the address cannot be bound; names it.
    """
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error}") from error
    if bound == 0:
        raise OSError(f"cannot listen on {host}:{port}: the port is in use")
    return bound


def is_gone(error: BaseException) -> bool:
    """Whether a call failed since the peer cannot be reached (retry, or ask if it is dead)."""
    return isinstance(error, grpc.RpcError) and error.code() in (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    )
