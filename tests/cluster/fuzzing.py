"""Bytes nobody asked for: at sockets, as frames, and as messages that parse but mislead."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from cluster_api.v1 import (
    agent_pb2,
    autoscaler_pb2,
    core_worker_pb2,
    gcs_pb2,
    node_session_pb2,
    placement_groups_pb2,
    types_pb2,
)
from tests.nonsense import Nonsense

GCS_SERVICES: list[ServiceDescriptor] = [
    service
    for file in (gcs_pb2, node_session_pb2, placement_groups_pb2, autoscaler_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
]
AGENT_SERVICES: list[ServiceDescriptor] = [
    service
    for file in (agent_pb2, node_session_pb2)  # the second: as a relay
    for service in file.DESCRIPTOR.services_by_name.values()
]
PROCESS_SERVICES: list[ServiceDescriptor] = list(
    core_worker_pb2.DESCRIPTOR.services_by_name.values()
)
OBEYED = ("Shutdown",)
"""Calls that do, by design, what whoever may call at all asks for."""

CALL_TIMEOUT_S = 0.5
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def open_call(
    channel: grpc.Channel, method: MethodDescriptor, frames: list[bytes], **options: object
) -> tuple[grpc.StatusCode, str]:
    """Sends raw frames as one call of the method; how it ended."""
    path = path_of(method)
    make: dict[tuple[bool, bool], Callable[..., Callable[..., object]]] = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }
    shape = (method.client_streaming, method.server_streaming)
    request = iter(frames) if method.client_streaming else frames[0]
    try:
        answer = make[shape](path)(request, timeout=CALL_TIMEOUT_S, **options)
        if method.server_streaming:
            for _ in answer:
                pass
    except grpc.RpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


def misleading(dice: random.Random, message: Message) -> Message:
    """Fills a message with values of the right types and no sense."""
    return Nonsense(dice).fill(message)


def frames_for(dice: random.Random, method: MethodDescriptor) -> list[bytes]:
    """One to four frames: noise, cut messages, misleading ones."""
    kind = GetMessageClass(method.input_type)
    frames: list[bytes] = []
    for _ in range(dice.randint(1, 4)):
        whole = misleading(dice, kind()).SerializeToString()
        cut = whole[: dice.randint(0, len(whole))]
        noise = dice.randbytes(dice.randint(0, 200))
        frames.append(dice.choice([whole, whole, cut, noise, cut + noise]))
    return frames


def opened_frames(dice: random.Random, method: MethodDescriptor) -> list[bytes]:
    """A stream that opens as a member of the cluster would, and then misleads."""
    make = _OPENERS.get(path_of(method))
    if make is None:
        return frames_for(dice, method)
    identity = dice.randbytes(16)
    frames = [make(identity).SerializeToString()]
    for _ in range(dice.randint(1, 12)):
        frame = misleading(dice, GetMessageClass(method.input_type)())
        if isinstance(frame, node_session_pb2.AgentFrame):
            for item in frame.items:
                item.node_id = identity
        frames.append(frame.SerializeToString())
    return frames


def _register(identity: bytes) -> Message:
    amounts = types_pb2.ResourceSet(amounts={"fuzz": 10_000})
    register = node_session_pb2.RegisterNode(
        address=f"127.0.0.1:{1 + identity[0]}", total=amounts, incarnation=1
    )
    item = node_session_pb2.AgentItem(node_id=identity, register=register)
    return node_session_pb2.AgentFrame(items=[item])


def _open_owner(identity: bytes) -> Message:
    opening = agent_pb2.OpenOwner(owner_id=identity, job_id=b"\0\0\0\1", owner_address="x:1")
    return agent_pb2.OwnerFrame(items=[agent_pb2.OwnerItem(open=opening)])


def _greet(identity: bytes) -> Message:
    return core_worker_pb2.PeerFrame(hello=core_worker_pb2.PeerHello(sender_id=identity))


_OPENERS: dict[str, Callable[[bytes], Message]] = {
    "/cluster_api.v1.NodeSessionService/Connect": _register,
    "/cluster_api.v1.AgentService/LeaseSession": _open_owner,
    "/cluster_api.v1.CoreWorkerService/Connect": _greet,
}


def raw_blobs(dice: random.Random) -> Iterator[bytes]:
    """What a port scanner or a broken peer may send."""
    yield b"\0" * 64
    yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield _PREFACE
    yield _PREFACE + dice.randbytes(2_000)
    for kind in range(12):
        # Frames of every kind with lengths that lie.
        for length in (0, 5, 2**14, 2**24 - 1):
            header = length.to_bytes(3, "big") + bytes([kind, dice.randrange(256)])
            yield _PREFACE + header + dice.randbytes(4) + dice.randbytes(min(length, 300))
    for _ in range(20):
        yield dice.randbytes(dice.randint(1, 5_000))


def throw_at_port(address: str, blobs: Iterator[bytes]) -> None:
    """Each blob on a connection of its own; some are left open until the end."""
    host, _, port = address.rpartition(":")
    left_open: list[socket.socket] = []
    for number, blob in enumerate(blobs):
        peer = socket.create_connection((host, int(port)), timeout=5)
        with suppress(OSError):
            peer.sendall(blob)
        if number % 3:
            peer.close()
        else:
            left_open.append(peer)
    for peer in left_open:
        peer.close()
