"""Servers and channels with the options that matter (GRPC_COSTS section 3)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from cluster_common import limits
from cluster_common.transport import auth, fault_streams, faults, tls

_COMMON: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", limits.GRPC_MESSAGE_BYTES_MAX),
    ("grpc.max_metadata_size", limits.METADATA_BYTES_MAX),
    ("grpc.keepalive_time_ms", limits.KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", limits.KEEPALIVE_TIMEOUT_MS),
)

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    *_COMMON,
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", limits.HANDSHAKE_TIMEOUT_MS),
    ("grpc.server.max_pending_requests", limits.SERVER_PENDING_REQUESTS_MAX),
    ("grpc.server.max_pending_requests_hard_limit", limits.SERVER_PENDING_REQUESTS_HARD_MAX),
    ("grpc.http2.min_ping_interval_without_data_ms", limits.KEEPALIVE_MS // 2),
    ("grpc.keepalive_permit_without_calls", 1),
)

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    *_COMMON,
    ("grpc.max_receive_message_length", limits.GRPC_MESSAGE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 50),
    # Also the time a connection attempt may take: 50 ms of it made busy machines look dead.
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_retries", 0),
    # Peers of a cluster are reached directly, whatever proxy the environment names for the web.
    ("grpc.enable_http_proxy", 0),
)


def _quiet_handlers() -> None:
    handlers = logging.getLogger("grpc._cython.cygrpc")
    if _worth_a_line not in handlers.filters:
        handlers.addFilter(_worth_a_line)


def _worth_a_line(record: logging.LogRecord) -> bool:
    """Whether a line is worth writing: one about a frame that cannot be read is not.

    The peer that sent it is told; whoever sends many must not fill our log with tracebacks.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, DecodeError)


def make_server(
    interceptors: Sequence[aio.ServerInterceptor] = (),
    *,
    message_bytes_max: int = limits.GRPC_MESSAGE_BYTES_MAX,
    calls_open_max: int = limits.SERVER_CALLS_OPEN_MAX,
) -> aio.Server:
    """An aio server bound to the running loop; add services and ports, then start it.

    It asks for the token when this process has one.

    Args:
        interceptors: more of them, after the token's.
        message_bytes_max: larger messages are refused before they are read.
        calls_open_max: calls and streams open at once; more are refused.
    """
    _quiet_handlers()
    others = [one for one in interceptors if not isinstance(one, auth.TokenInterceptor)]
    ordered = faults.active()
    if ordered is not None:
        others.append(fault_streams.FaultInterceptor(ordered))
    return aio.server(
        options=(*SERVER_OPTIONS, ("grpc.max_receive_message_length", message_bytes_max)),
        interceptors=[*auth.server_interceptors(), *others],
        maximum_concurrent_rpcs=calls_open_max,
    )


def make_channel(
    address: str, *, own_connection: bool = False, keepalive_ms: int = limits.KEEPALIVE_MS
) -> aio.Channel:
    """A channel to `host:port` that shows the token when this process has one.

    Args:
        address: of the server.
        own_connection: do not share a TCP connection with other channels.
        keepalive_ms: between two HTTP/2 pings of ours while a call is open.
    """
    _quiet_handlers()
    options: tuple[tuple[str, Any], ...] = tuple(
        (name, keepalive_ms if name == "grpc.keepalive_time_ms" else value)
        for name, value in CHANNEL_OPTIONS
    )
    if own_connection:
        options = (*options, ("grpc.use_local_subchannel_pool", 1))
    secured = tls.current()
    if secured is None:
        plain = aio.insecure_channel(address, options=options)
    else:
        options = (*options, *secured.channel_options())
        plain = aio.secure_channel(address, secured.channel_credentials(), options=options)
    channel = auth.with_token(plain)
    ordered = faults.active()
    return channel if ordered is None else fault_streams.naming(channel, ordered)


def make_blocking_channel(address: str) -> grpc.Channel:
    """As `make_channel`, for code without a loop. Calls show the token with `auth.metadata()`."""
    _quiet_handlers()
    secured = tls.current()
    if secured is None:
        return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    options: tuple[tuple[str, Any], ...] = (*CHANNEL_OPTIONS, *secured.channel_options())
    return grpc.secure_channel(address, secured.channel_credentials(), options=options)


def bind(server: aio.Server, host: str, port: int) -> int:
    """Listens and returns the real port (0: any free one).

    Raises:
        OSError: the address cannot be bound; names it.
    """
    try:
        secured = tls.current()
        if secured is None:
            bound = server.add_insecure_port(f"{host}:{port}")
        else:
            bound = server.add_secure_port(f"{host}:{port}", secured.server_credentials())
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
