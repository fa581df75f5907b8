"""One shared token per cluster: every channel shows it, every server asks for it.

A process takes the token from `configure`, else on first use from `SHOAL_TOKEN` or the file that
`SHOAL_TOKEN_FILE` names. Without one nothing is added to any call. The health service answers
without a token, so that probes need no secret.

Channels are wrapped rather than intercepted: an aio interceptor moves every message of a stream
through one more queue, the wrapper only adds metadata when a call opens.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import grpc
from grpc import aio

from cluster_common import limits
from cluster_common.transport import own_host, tls

TOKEN_VARIABLE = "SHOAL_TOKEN"  # noqa: S105 - the name of the variable, not a token
TOKEN_FILE_VARIABLE = "SHOAL_TOKEN_FILE"  # noqa: S105 - the name of the variable, not a token
TOKEN_CHARACTERS_MIN = 16
TOKEN_CHARACTERS_MAX = 1_024

_METADATA_KEY = "authorization"
_SCHEME = "Bearer "
_OPEN_SERVICES = ("/grpc.health.v1.Health/",)
_REFUSAL = (
    "this cluster needs a token and the call showed none or a wrong one; set "
    f"{TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE} to what the head node uses"
)

Handler = Any  # grpc.RpcMethodHandler; its own type parameters exist in stubs only


class _ProcessToken:
    """The token of this process; read from the environment at the first question, not at import."""

    def __init__(self) -> None:
        self.value: str | None = None
        self.known = False


_process = _ProcessToken()


def configure(token: str | None) -> None:
    """Sets the token of this process (None: no token), whatever the environment says.

    Raises:
        ValueError: it is too short, too long, or has characters that no header can carry.
    """
    if token is not None:
        _check(token, "the token")
    _process.value = token
    _process.known = True


def forget() -> None:
    """The next question reads the environment again; for a forked child with another one."""
    _process.value = None
    _process.known = False


def current_token() -> str | None:
    """The token of this process, or None.

    Raises:
        ValueError: the environment names a token or a file that cannot be one.
    """
    if not _process.known:
        _process.value = _from_environment()
        _process.known = True
    return _process.value


def require_token_for(host: str) -> None:
    """Refuses to listen where other machines can reach us without a token or mutual TLS.

    Raises:
        ValueError: `host` is not a loopback one and this process has neither; or what it has is
            wrong.
    """
    secured = tls.current()
    if own_host.is_loopback(host) or current_token() is not None or secured is not None:
        return
    raise ValueError(
        f"host {host!r} can be reached from other machines, so a token is needed: set "
        f"{TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE} (`shoal start --head` makes a file at first "
        f"start), or certificates for mutual TLS ({tls.CERTIFICATE_VARIABLE}), or listen on "
        f"{limits.LOOPBACK_HOSTS[0]}"
    )


def make_token_file(path: Path) -> str:
    """The token in `path`; a new one, readable by this user only, when there is no such file.

    Raises:
        ValueError: the file holds no token.
        OSError: it can be neither read nor made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _from_file(path)
    token = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def metadata() -> tuple[tuple[str, str], ...]:
    """What a call has to show; empty without a token. For calls on channels that are not ours."""
    token = current_token()
    return () if token is None else ((_METADATA_KEY, _SCHEME + token),)


def server_interceptors() -> list[aio.ServerInterceptor]:
    """For a server that is not made by `endpoints.make_server`, which adds them by itself."""
    token = current_token()
    return [] if token is None else [TokenInterceptor(token)]


def with_token(channel: aio.Channel) -> aio.Channel:
    """The same channel when this process has no token, else one that shows it at every call."""
    shown = metadata()
    return TokenChannel(channel, shown) if shown else channel


class TokenInterceptor(aio.ServerInterceptor):
    """Refuses calls that do not show the token, before any handler sees them."""

    def __init__(self, token: str) -> None:
        self._expected = (_SCHEME + token).encode()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """The real handler, or one of the same shape that refuses."""
        handler = await continuation(handler_call_details)
        # An unknown method has no handler: gRPC answers UNIMPLEMENTED itself.
        if handler is None or self._is_allowed(handler_call_details):
            return handler
        return _refusing(handler)

    def _is_allowed(self, details: grpc.HandlerCallDetails) -> bool:
        if str(details.method).startswith(_OPEN_SERVICES):
            return True
        for key, value in details.invocation_metadata or ():
            if key == _METADATA_KEY:
                shown = value.encode() if isinstance(value, str) else value
                return hmac.compare_digest(shown, self._expected)
        return False


async def _refuse(_request: Any, context: aio.ServicerContext[Any, Any]) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, _REFUSAL)


def _refusing(handler: Any) -> Handler:
    make: Any = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    return make(_refuse, handler.request_deserializer, handler.response_serializer)


class TokenChannel(aio.Channel):
    """A channel whose calls all carry the same metadata on top of their own."""

    def __init__(self, channel: aio.Channel, shown: tuple[tuple[str, str], ...]) -> None:
        self._channel: Any = channel
        self._shown = shown

    async def __aenter__(self) -> Self:
        await self._channel.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._channel.__aexit__(*error)

    async def close(self, grace: float | None = None) -> None:
        """As the wrapped channel's."""
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:  # noqa: FBT001, FBT002 - gRPC's signature
        """As the wrapped channel's."""
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """As the wrapped channel's."""
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """As the wrapped channel's."""
        await self._channel.channel_ready()

    def unary_unary(self, *args: Any, **options: Any) -> Any:
        """As the wrapped channel's, with the token."""
        return self._adding(self._channel.unary_unary(*args, **options))

    def unary_stream(self, *args: Any, **options: Any) -> Any:
        """As the wrapped channel's, with the token."""
        return self._adding(self._channel.unary_stream(*args, **options))

    def stream_unary(self, *args: Any, **options: Any) -> Any:
        """As the wrapped channel's, with the token."""
        return self._adding(self._channel.stream_unary(*args, **options))

    def stream_stream(self, *args: Any, **options: Any) -> Any:
        """As the wrapped channel's, with the token."""
        return self._adding(self._channel.stream_stream(*args, **options))

    def _adding(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def call_with_token(*args: Any, metadata: Any = None, **options: Any) -> Any:
            own = tuple(metadata) if metadata else ()
            return call(*args, metadata=(*own, *self._shown), **options)

        return call_with_token


def _from_environment() -> str | None:
    token = os.environ.get(TOKEN_VARIABLE)
    if token:
        return _check(token.strip(), TOKEN_VARIABLE)
    file = os.environ.get(TOKEN_FILE_VARIABLE)
    if not file:
        return None
    try:
        return _from_file(Path(file))
    except OSError as error:
        raise ValueError(f"{TOKEN_FILE_VARIABLE} names {file}: {error.strerror}") from error


def _from_file(path: Path) -> str:
    return _check(path.read_text(encoding="utf-8").strip(), f"the token in {path}")


def _check(token: str, what: str) -> str:
    if not TOKEN_CHARACTERS_MIN <= len(token) <= TOKEN_CHARACTERS_MAX:
        raise ValueError(
            f"{what} has {len(token)} characters, "
            f"{TOKEN_CHARACTERS_MIN} .. {TOKEN_CHARACTERS_MAX} are allowed"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"{what} may have printable ASCII characters only, and no spaces")
    return token
