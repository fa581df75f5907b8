"""The unary questions that tools and other processes ask of a driver or worker."""

import pytest

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_common.transport.endpoints import make_channel
from driver_client import limits
from driver_client.objects import entry as entries
from driver_client.objects import serialization


@pytest.fixture
def ask(rig):
    """Asks the owner's service and gives its answer, or the list of a stream."""

    async def run(method, request):
        async with make_channel(rig.owner.address) as channel:
            call = getattr(rpc.CoreWorkerServiceStub(channel), method)(request, timeout=10)
            if hasattr(call, "__aiter__"):
                return [part async for part in call]
            return await call

    return lambda method, request: rig.io.call(run(method, request))


def fetch(ask, object_id):
    return ask("FetchObject", pb.FetchObjectRequest(object_id=object_id))


def test_a_value_comes_in_chunks(rig, ask):
    value = b"x" * (2 * limits.OBJECT_CHUNK_BYTES + 17)
    kept, entry = rig.put(value)
    parts = fetch(ask, entry.object_id)
    assert len(parts) == 3
    assert {part.size_bytes for part in parts} == {len(entry.data)}
    assert not any(part.is_error or part.unknown for part in parts)
    assert serialization.loads(b"".join(part.data for part in parts)) == value
    del kept


def test_an_error_is_marked_and_what_is_not_there_is_unknown(rig, ask):
    kept, entry = rig.put("ignored")
    entry.state = entries.ERROR
    assert [part.is_error for part in fetch(ask, entry.object_id)] == [True]
    entry.state = entries.PENDING
    assert [part.unknown for part in fetch(ask, entry.object_id)] == [True]
    del rig.owner.ownership.own[entry.key]
    assert [part.unknown for part in fetch(ask, entry.object_id)] == [True]
    del kept


@pytest.mark.parametrize(("actor_id", "found"), [(b"known", True), (b"other", False)])
def test_a_kill_says_whether_the_actor_is_ours(rig, ask, actor_id, found):
    request = pb.KillActorRequest(actor_id=actor_id, no_restart=True, reason="why")
    assert ask("KillActor", request).found == found
    assert rig.owner.hooks.killed == [(actor_id, True, "why")]


def test_a_process_tells_the_sizes_of_its_tables(rig, ask):
    state = ask("GetWorkerState", pb.GetWorkerStateRequest())
    assert state.worker_id == rig.owner.owner_id
    assert (state.objects, state.references) == (3, 2)
