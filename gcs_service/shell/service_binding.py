"""Binds a service of the protos to a handler object, and translates refusals into statuses.

For each RPC `GetAllNodes` the handler has a coroutine method `get_all_nodes`: unary ones take the
request and return the response or raise `Refused`; streams take (request or None, context) and use
`read`/`write`. Every unary call is counted by name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

from cluster_common.transport import cluster_mark
from cluster_common.transport.logs import get_logger
from gcs_service.core import effects as fx
from gcs_service.core.effects import Refusal
from gcs_service.shell.storage.protocol import StoreLostError

log = get_logger()

_WORD = re.compile(r"(?<!^)(?=[A-Z])")

STATUS_OF_REFUSAL = {
    fx.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    fx.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    fx.OWNER_DEAD: grpc.StatusCode.FAILED_PRECONDITION,
    fx.TABLE_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    fx.QUOTA: grpc.StatusCode.RESOURCE_EXHAUSTED,
    fx.TOO_LARGE: grpc.StatusCode.OUT_OF_RANGE,
    fx.OTHER_CLUSTER: grpc.StatusCode.FAILED_PRECONDITION,
    fx.READ_ONLY: grpc.StatusCode.ABORTED,
}


WRITES = frozenset(
    {
        "KvService/Put",
        "KvService/Delete",
        "JobService/AddJob",
        "ActorService/RegisterNamedActor",
        "ActorService/CreateDetachedActor",
        "ActorService/KillActor",
        "NodeService/DrainNode",
        "AutoscalerStateService/DrainNode",
        "AutoscalerStateService/RequestClusterResourceConstraint",
        "AutoscalerStateService/ReportClusterConfig",
    }
)
"""Refused while the store is lost. What only reports facts (ends of jobs, records of owners) is
taken: it becomes durable later."""


class RefusedError(Exception):
    """Carries a core's refusal out of a handler."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def unless_refused(result: Any) -> Any:
    """The result, or raises the refusal that it is."""
    if isinstance(result, Refusal):
        raise RefusedError(result)
    return result


class ServiceBinder:
    """Adds services to a server; `counters` has one entry per RPC called.

    Args:
        cluster_id: hex; calls that show another one are refused.
        store_problem: why nothing can be written, empty when all is well.
    """

    def __init__(
        self, server: aio.Server, cluster_id: str, store_problem: Callable[[], str]
    ) -> None:
        self._server = server
        self._cluster_id = cluster_id
        self._store_problem = store_problem
        self.counters: Counter[str] = Counter()
        self.names: list[str] = []

    def add(self, service: ServiceDescriptor, handler: object) -> None:
        """Binds all RPCs of a service; a missing method is an AttributeError at once."""
        handlers = {
            method.name: self._bind(method, getattr(handler, snake_case(method.name)))
            for method in service.methods
        }
        generic = grpc.method_handlers_generic_handler(service.full_name, handlers)
        self._server.add_generic_rpc_handlers((generic,))
        self.names.append(service.full_name)

    def _bind(self, method: MethodDescriptor, handle: Callable[..., Any]) -> Any:
        coders: dict[str, Any] = {
            "request_deserializer": GetMessageClass(method.input_type).FromString,
            "response_serializer": _serialize,
        }
        if method.client_streaming and method.server_streaming:
            stream = self._stream(method.name, handle)
            return grpc.stream_stream_rpc_method_handler(stream, **coders)
        if method.server_streaming:
            stream = self._stream(method.name, handle)
            return grpc.unary_stream_rpc_method_handler(stream, **coders)
        service = method.containing_service.name
        writes = f"{service}/{method.name}" in WRITES
        handler = self._unary(method.name, handle, writes=writes)
        return grpc.unary_unary_rpc_method_handler(handler, **coders)

    def _unary(
        self, name: str, handle: Callable[[Any], Awaitable[Any]], *, writes: bool
    ) -> Callable[[Any, aio.ServicerContext[Any, Any]], Awaitable[Any]]:
        counters, counter = self.counters, f"rpc.{name}"
        problem, cluster_id = self._store_problem, self._cluster_id

        async def answer(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            counters[counter] += 1
            if other := cluster_mark.refusal(context, cluster_id):
                return await context.abort(grpc.StatusCode.FAILED_PRECONDITION, other)
            if writes and problem():
                sentence = f"{name} refused: read-only until the store is back: {problem()}"
                return await context.abort(grpc.StatusCode.ABORTED, sentence)
            try:
                return await handle(request)
            except StoreLostError as error:
                return await context.abort(grpc.StatusCode.ABORTED, str(error))
            except RefusedError as error:
                status = STATUS_OF_REFUSAL[error.refusal.code]
                return await context.abort(status, error.refusal.message)
            except AssertionError as error:
                log.exception("broken_invariant", rpc=name)
                return await context.abort(
                    grpc.StatusCode.INTERNAL, f"{name} met a broken invariant: {error}"
                )

        return answer

    def _stream(
        self, name: str, handle: Callable[..., Awaitable[None]]
    ) -> Callable[..., Awaitable[None]]:
        """A stream whose peer sends nonsense ends with a sentence; it harms nobody else."""
        cluster_id = self._cluster_id

        async def serve(request: Any, context: aio.ServicerContext[Any, Any]) -> None:
            if other := cluster_mark.refusal(context, cluster_id):
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, other)
            try:
                await handle(request, context)
            except RefusedError as error:
                await context.abort(STATUS_OF_REFUSAL[error.refusal.code], error.refusal.message)
            except DecodeError as error:
                sentence = f"{name}: a frame could not be read: {error}"
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, sentence)

        return serve


def snake_case(name: str) -> str:
    """`GetAllNodes` -> `get_all_nodes`."""
    return _WORD.sub("_", name).lower()


def _serialize(message: Any) -> bytes:
    return message if type(message) is bytes else message.SerializeToString()
