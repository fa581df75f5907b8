"""Several nodes on one stream, over real gRPC: each joins, breaks and is refused by itself."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_common import limits as common_limits
from cluster_common.transport.task_keeper import TaskKeeper
from raylet_agent.shell.shared_stream import SharedStream
from tests.wire.agent.shared_stream_rig import (
    NODES,
    SharedRig,
    frame,
    joined,
    read,
    register,
    until,
    view,
    welcome,
)

A, B, C = NODES[:3]


@pytest.fixture
async def rig():
    made = SharedRig()
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def stream(rig):
    keeper = TaskKeeper("test")
    yield SharedStream(rig.stub(rig.address).Connect, keeper)
    await keeper.close()


async def test_all_nodes_use_one_stream_and_each_reads_its_own_items(rig, stream):
    calls = {node_id: await joined(stream, node_id) for node_id in (A, B)}
    for node_id in calls:
        await rig.gcs.tell(n.GcsItem(node_id=node_id, ping=n.Ping(nonce=node_id[0])))
    for node_id, call in calls.items():
        found = await call.read()
        assert [item.ping.nonce for item in found.items] == [node_id[0]]
    assert len(rig.gcs.streams) == 1


async def test_what_names_no_node_is_for_all(rig, stream):
    calls = [await joined(stream, node_id) for node_id in (A, B)]
    await rig.gcs.tell(n.GcsItem(owners_died=n.OwnersDied(owner_ids=[b"o"])))
    assert [await read(call) for call in calls] == [["owners_died"]] * 2


async def test_an_order_without_an_address_is_for_nobody(rig, stream):
    call = await joined(stream, A)
    await rig.gcs.tell(n.GcsItem(refused=n.Refused(reason="declared_dead")))
    await rig.gcs.tell(n.GcsItem(drain=n.DrainCommand()))
    await rig.gcs.tell(n.GcsItem(node_id=A, ping=n.Ping(nonce=1)))
    assert await read(call) == ["ping"]


async def test_views_are_for_those_that_schedule_and_never_of_themselves(rig, stream):
    scheduler = await joined(stream, A, scheduler=True)
    plain = await joined(stream, B)
    for node_id in (A, B):
        await rig.gcs.tell(view(node_id))
    await rig.gcs.tell(n.GcsItem(node_change=n.NodeChange(node=t.NodeRecord(node_id=C))))
    found = await scheduler.read()
    while len(found.items) < 2:
        found.items.extend((await scheduler.read()).items)
    assert [item.WhichOneof("item") for item in found.items] == ["view", "node_change"]
    assert found.items[0].view.node_id == B
    assert await read(plain) == ["node_change"]


async def test_with_sync_scope_all_everybody_gets_views(rig, stream):
    rig.gcs.welcomes = False
    call = stream.connect()
    await call.write(register(A))
    await until(rig.gcs.items, "it registered")
    await rig.gcs.tell(welcome(A, 1, settings={"sync_scope": "all"}))
    assert await read(call) == ["welcome"]
    await rig.gcs.tell(view(B))
    assert await read(call) == ["view"]


async def test_one_node_leaves_and_the_gcs_hears_of_it_alone(rig, stream):
    leaving, staying = await joined(stream, A), await joined(stream, B)
    await leaving.write(frame(A, snapshot=n.ResourceSnapshot(version=7)))
    leaving.cancel()
    await until(lambda: rig.gcs.items("session_left"), "the GCS heard")
    kinds = [item.WhichOneof("item") for item in rig.gcs.items(node_id=A)]
    assert kinds == ["register", "snapshot", "session_left"]
    assert rig.gcs.items("session_left", B) == []
    await rig.gcs.tell(n.GcsItem(node_id=A, ping=n.Ping(nonce=1)))
    await rig.gcs.tell(n.GcsItem(node_id=B, ping=n.Ping(nonce=2)))
    assert await read(staying) == ["ping"]
    assert rig.gcs.ended == 0


async def test_the_last_node_that_leaves_ends_the_stream_behind_its_last_words(rig, stream):
    call = await joined(stream, A)
    await call.write(frame(A, goodbye=n.Goodbye(message="bye")))
    call.cancel()
    await until(lambda: rig.gcs.ended == 1, "the stream ended")
    assert [item.WhichOneof("item") for item in rig.gcs.items()] == ["register", "goodbye"]
    again = await joined(stream, A, 2)
    assert len(rig.gcs.streams) == 2
    again.cancel()


async def test_a_refusal_ends_one_node_only(rig, stream):
    rig.gcs.refused.add(B)
    staying, refused = await joined(stream, A), stream.connect()
    await refused.write(register(B))
    assert await read(refused) == ["refused"]
    refused.cancel()
    await rig.gcs.tell(n.GcsItem(node_id=A, ping=n.Ping(nonce=2)))
    assert await read(staying) == ["ping"]


async def test_a_broken_stream_ends_all_its_nodes_with_its_code(rig, stream):
    calls = [await joined(stream, node_id) for node_id in (A, B)]
    rig.gcs.drop()
    for call in calls:
        assert await read(call) is None
        assert await call.code() == grpc.StatusCode.UNAVAILABLE
        assert await call.details() == "dropped by the test"
        with pytest.raises(asyncio.InvalidStateError, match="has ended"):
            await call.write(frame(A, snapshot=n.ResourceSnapshot()))
    await joined(stream, A, 2)
    assert len(rig.gcs.streams) == 2


async def test_a_stream_that_breaks_during_a_registration_ends_it(rig, stream):
    rig.gcs.welcomes = False
    call, late = stream.connect(), stream.connect()
    await call.write(register(A))
    await until(rig.gcs.items, "it registered")
    rig.gcs.drop()
    assert await read(call) is None
    # Made before the break, used after it: ended at once, not waiting for ever.
    with pytest.raises(asyncio.InvalidStateError):
        await late.write(register(B))
    assert await read(late) is None
    assert await late.code() == grpc.StatusCode.UNAVAILABLE


async def test_what_comes_for_an_earlier_registration_is_not_read_by_the_next(rig, stream):
    """Over the same stream an order for the session that broke may still be on its way."""
    first = await joined(stream, A)
    await joined(stream, B)
    first.cancel()
    rig.gcs.welcomes = False
    second = stream.connect()
    await second.write(register(A, 2))
    await until(lambda: len(rig.gcs.items("register", A)) == 2, "it registered anew")
    stale = n.BundleCommand(action=n.BUNDLE_ACTION_PREPARE, reservation_seq=5)
    await rig.gcs.tell(n.GcsItem(node_id=A, bundle=stale))
    await rig.gcs.tell(welcome(A, 1))
    await rig.gcs.tell(n.GcsItem(owners_died=n.OwnersDied(owner_ids=[b"o"])))
    await rig.gcs.tell(welcome(A, 2))
    assert (await second.read()).items[0].welcome.incarnation == 2


async def test_of_two_calls_of_a_node_the_newer_one_lives(rig, stream):
    newer = await joined(stream, A, 5)
    older = stream.connect()
    with pytest.raises(asyncio.InvalidStateError):
        await older.write(register(A, 4))
    newest = await joined(stream, A, 6)
    assert await read(newer) is None
    # Its end does not concern the one that replaced it.
    newer.cancel()
    await rig.gcs.tell(n.GcsItem(node_id=A, ping=n.Ping(nonce=1)))
    assert await read(newest) == ["ping"]
    assert rig.gcs.items("session_left") == []


async def test_what_many_nodes_say_at_once_leaves_in_few_frames(rig, stream):
    calls = {node_id: await joined(stream, node_id) for node_id in NODES}
    said = 200
    before = len(rig.gcs.streams[0])

    async def speak(node_id, call):
        for version in range(1, said + 1):
            await call.write(frame(node_id, snapshot=n.ResourceSnapshot(version=version)))

    await asyncio.gather(*(speak(node_id, call) for node_id, call in calls.items()))
    expected = said * len(NODES)
    await until(lambda: len(rig.gcs.items("snapshot")) == expected, "all arrived")
    frames = rig.gcs.streams[0][before:]
    assert len(frames) < expected / 2
    for node_id in NODES:
        versions = [item.snapshot.version for item in rig.gcs.items("snapshot", node_id)]
        assert versions == list(range(1, said + 1))


async def test_frames_stay_within_their_bounds(rig, stream):
    call = await joined(stream, A)
    large = "x" * (common_limits.FRAME_BYTES_MAX // 3)
    items = [n.AgentItem(node_id=A, goodbye=n.Goodbye(message=large)) for _ in range(9)]
    items += [n.AgentItem(node_id=A, demand=n.DemandReport(version=v)) for v in range(1_200)]
    await call.write(n.AgentFrame(items=items))
    await until(lambda: len(rig.gcs.items("demand")) == 1_200, "all arrived")
    for each in rig.gcs.streams[0]:
        assert len(each.items) <= common_limits.FRAME_ITEMS_MAX
        assert sum(item.ByteSize() for item in each.items) <= common_limits.FRAME_BYTES_MAX


async def test_a_node_that_does_not_read_ends_alone(rig, stream, monkeypatch):
    monkeypatch.setattr(common_limits, "OUTBOX_ITEMS_MAX", 3)
    slow, quick = await joined(stream, A), await joined(stream, B)
    for nonce in range(4):
        await rig.gcs.tell(n.GcsItem(node_id=A, ping=n.Ping(nonce=nonce)))
    await until(lambda: rig.gcs.items("session_left", A), "the GCS heard that it left")
    assert await read(slow) is None
    assert await slow.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    await rig.gcs.tell(n.GcsItem(node_id=B, ping=n.Ping(nonce=2)))
    assert await read(quick) == ["ping"]


async def test_a_call_that_is_given_up_lets_its_reader_go(stream):
    call = await joined(stream, A)
    reading = asyncio.ensure_future(call.read())
    await asyncio.sleep(0)
    assert call.cancel()
    assert not call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await call.code() == grpc.StatusCode.CANCELLED


async def test_the_end_of_the_process_ends_all_calls(rig):
    keeper = TaskKeeper("test")
    stream = SharedStream(rig.stub(rig.address).Connect, keeper)
    calls = [await joined(stream, node_id) for node_id in (A, B)]
    await keeper.close()
    for call in calls:
        assert await read(call) is None
