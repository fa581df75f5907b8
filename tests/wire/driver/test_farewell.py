"""The last exchange of a worker that ends: its callers say that they read its answers."""

import asyncio

import pytest

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_common.transport.endpoints import make_channel
from driver_client import limits
from driver_client.objects import serialization
from driver_client.shell.farewell import say_farewell
from driver_client.shell.peer_stream import PeerStream
from tests.wire.driver.peer_rig import WAIT_S, until

AT_ONCE_S = 1_000.0
"""A limit that no test waits for."""


def farewell(rig, *, agent_hears=True):
    """What the worker does at its end; fails when it takes longer than any test may."""
    heard = asyncio.Event()
    if agent_hears:
        heard.set()
    rig.io.call(say_farewell(rig.worker.service.streams, rig.worker.ownership, heard), WAIT_S)


def push(rig, sequence, value):
    """An answer of the worker's to the first caller."""
    stream = next(iter(rig.worker.service.streams))
    data = serialization.dumps(value)
    stream.push((sequence, data, pb.RESULT_KIND_VALUE, None, 0))


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(limits, "EXIT_ANSWERS_READ_S", AT_ONCE_S)


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(limits, "EXIT_ANSWERS_READ_S", 0.05)


def asked(rig, connection, count):
    """Calls that the rig's executor never sees: the test answers them."""
    records = [rig.record(rig.template(len), "never run") for _ in range(count)]
    rig.on_io(lambda: connection.in_flight.update((record[0], record) for record in records))
    return records


@pytest.mark.usefixtures("at_once")
def test_every_answer_was_read_when_the_worker_goes(rig, monkeypatch):
    monkeypatch.setattr(limits, "RESULT_FRAME_ITEMS_MAX", 7)
    connection = rig.connect()
    rig.value(rig.call(connection, len, "abc"))
    records = asked(rig, connection, 100)
    for number, record in enumerate(records):
        push(rig, record[0], number)
    farewell(rig)
    assert connection.in_flight == {}
    assert [rig.value(record) for record in records] == list(range(100))


@pytest.mark.usefixtures("at_once")
def test_an_answer_that_waits_for_the_owner_of_a_reference_is_read_too(rig):
    connection = rig.connect()
    rig.value(rig.call(connection, len, "abc"))
    (record,) = asked(rig, connection, 1)
    kept, entry = rig.put("v")
    pushed = []

    def answer():
        ownership = rig.worker.ownership
        borrowed = ownership.resolve(entry.object_id, rig.owner.address)
        ownership.after_acknowledged(
            list(ownership.unacknowledged()),
            lambda: (pushed.append(borrowed), push(rig, record[0], "with a reference")),
        )
        assert not pushed, "it waits for the owner's word"

    rig.on_io(answer)
    farewell(rig)
    assert rig.value(record) == "with a reference"
    del kept


@pytest.mark.usefixtures("at_once")
def test_a_caller_that_is_gone_is_not_waited_for(rig):
    first, second = rig.connect(), rig.connect()
    for connection in (first, second):
        rig.value(rig.call(connection, len, "abc"))
    rig.on_io(first.close)
    farewell(rig)


async def _silent_stream(address):
    channel = make_channel(address)
    stream = rpc.CoreWorkerServiceStub(channel).Connect()
    await stream.write(pb.PeerFrame(hello=pb.PeerHello(sender_id=b"s" * 16)))
    return channel


@pytest.mark.usefixtures("soon")
def test_a_caller_that_hangs_costs_the_limit(rig):
    channel = rig.io.call(_silent_stream(rig.worker.address))
    until(lambda: rig.worker.service.streams, "the caller is there")
    farewell(rig)
    stream = next(iter(rig.worker.service.streams))
    assert not stream.read_to_its_end.is_set()
    rig.io.call(channel.close())


@pytest.mark.usefixtures("soon")
def test_an_agent_that_hangs_costs_the_limit(rig):
    connection = rig.connect()
    rig.value(rig.call(connection, len, "abc"))
    farewell(rig, agent_hears=False)
    assert [stream.read_to_its_end.is_set() for stream in rig.worker.service.streams] == [True]


def test_the_last_frame_says_so_and_no_earlier_one(rig, monkeypatch):
    monkeypatch.setattr(limits, "RESULT_FRAME_ITEMS_MAX", 2)
    stream = PeerStream(rig.io)
    stream.results.extend((n, b"", pb.RESULT_KIND_VALUE, None, 0) for n in range(5))
    rig.on_io(stream.say_closing)
    frames = [stream._frame() for _ in range(4)]
    assert [(len(frame.results.task_seq), frame.closing) for frame in frames] == [
        (2, False),
        (2, False),
        (1, True),
        (0, False),
    ]
