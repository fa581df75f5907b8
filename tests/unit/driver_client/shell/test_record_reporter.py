"""Which records of owned actors leave when: over real gRPC, to a GCS that the test holds up."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from cluster_api.v1 import agent_pb2 as agent_pb
from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import gcs_pb2 as gcs
from cluster_api.v1 import gcs_pb2_grpc as rpc
from cluster_api.v1 import types_pb2 as t
from cluster_common.transport.endpoints import bind, make_channel, make_server
from driver_client import limits
from driver_client.core.actor_spec import ActorSpec
from driver_client.core.call import function_body
from driver_client.core.scheduling_key import SchedulingKey
from driver_client.objects.entry import Entry
from driver_client.shell.actor_client import ActorClient
from driver_client.shell.owned_actor import OwnedActor
from driver_client.shell.owner_services import OwnerServices
from driver_client.shell.record_reporter import RecordReporter

WAIT_S = 20.0
LONG_S = 600.0
"""A pause that no test waits for."""

OWNER = b"o" * 16
ALIVE, DEAD = "alive", "dead"


class Gcs(rpc.ActorServiceServicer):
    """Takes batches while `open` is set; answers with the next of `errors` first."""

    def __init__(self):
        self.open = asyncio.Event()
        self.open.set()
        self.errors = []
        self.batches = []
        self.tried = 0
        self.at_once = 0
        self.most_at_once = 0
        self.changed = asyncio.Condition()

    async def ReportActors(self, request, context):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._answer(request, context)
        finally:
            self.at_once -= 1

    async def _answer(self, request, context):
        await self._count(1)
        await self.open.wait()
        if self.errors:
            await context.abort(self.errors.pop(0), "as the test wants it")
        assert request.owner_id == OWNER
        dead = t.ACTOR_STATE_DEAD
        batch = {r.actor_id: DEAD if r.state == dead else ALIVE for r in request.actors}
        assert len(batch) == len(request.actors), "an actor is in a batch once"
        self.batches.append(batch)
        await self._count(0)
        return gcs.ReportActorsResponse()

    async def _count(self, tried):
        async with self.changed:
            self.tried += tried
            self.changed.notify_all()

    async def until(self, condition):
        async with asyncio.timeout(WAIT_S), self.changed:
            await self.changed.wait_for(condition)


class Owner:
    """A reporter, the actors it reports, and the host's tools they need."""

    def __init__(self, io, stub, may_begin):
        self.services = OwnerServices(io, OWNER, pb.PeerHello)
        self.job_id = b"job1"
        self.leases = None
        self.stub = stub
        self.reporter = RecordReporter(io, stub, OWNER, may_begin)

    def actor(self, letter, name=""):
        actor_id = letter * 16
        spec = ActorSpec(
            actor_id=actor_id,
            class_body=function_body(b"", "dict"),
            class_name="dict",
            payload=b"",
            extra=None,
            key=SchedulingKey(agent_pb.LeaseRequest()),
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=1,
            concurrency_groups={},
            is_async=False,
            out_of_order=False,
            without_events=False,
            name=name,
            namespace="",
            handle=b"handle",
            capture_child_tasks=False,
            job_id=self.job_id,
            sys_path=(),
        )
        client = ActorClient(actor_id, self.services, "dict")
        return OwnedActor(spec, Entry(1, OWNER, ""), client, self)

    def publish(self, actor):
        self.reporter.changed(actor)

    def group_state(self, _group_id):
        return 0

    async def round_trip(self):
        """Time in which a call that was made would have come to the GCS."""
        await self.stub.ReportActors(gcs.ReportActorsRequest(owner_id=OWNER))


def end(actor):
    actor.end(t.ACTOR_DEATH_CAUSE_KILLED, "the test ended it")


@pytest.fixture
def told(io):
    """Runs a story on the I/O thread; it gets the owner and the GCS."""

    def run(story, may_begin=lambda: asyncio.sleep(0)):
        async def staged():
            async with served() as (served_gcs, stub):
                await story(Owner(io, stub, may_begin), served_gcs)

        io.call(staged(), WAIT_S)

    return run


@asynccontextmanager
async def served():
    server, service = make_server(), Gcs()
    rpc.add_ActorServiceServicer_to_server(service, server)
    port = bind(server, "127.0.0.1", 0)
    await server.start()
    channel = make_channel(f"127.0.0.1:{port}", own_connection=True)
    try:
        yield service, rpc.ActorServiceStub(channel)
    finally:
        service.open.set()
        await channel.close()
        await server.stop(None)


def test_what_changes_while_a_batch_is_on_its_way_leaves_once_and_as_it_is_then(told, monkeypatch):
    monkeypatch.setattr(limits, "ACTOR_RECORDS_PAUSE_S", 0.001)

    async def story(owner, service):
        first, second = owner.actor(b"a"), owner.actor(b"b")
        service.open.clear()
        owner.publish(first)
        await service.until(lambda: service.tried == 1)
        for _ in range(3):
            owner.publish(second)
            owner.publish(first)
        end(first)
        service.open.set()
        assert await owner.reporter.flushed(WAIT_S)
        assert service.batches == [
            {b"a" * 16: ALIVE},
            {b"b" * 16: ALIVE, b"a" * 16: DEAD},
        ]
        assert service.most_at_once == 1

    told(story)


def test_many_records_leave_in_batches_of_a_bounded_size(told, monkeypatch):
    monkeypatch.setattr(limits, "ACTOR_RECORDS_BATCH_MAX", 2)
    monkeypatch.setattr(limits, "ACTOR_RECORDS_PAUSE_S", LONG_S)

    async def story(owner, service):
        for letter in (b"a", b"b", b"c", b"d", b"e"):
            owner.publish(owner.actor(letter))
        assert await owner.reporter.flushed(WAIT_S), "who waits is not kept waiting by the pause"
        assert [len(batch) for batch in service.batches] == [2, 2, 1]

    told(story)


def test_between_two_batches_is_a_pause_in_which_changes_gather(told, monkeypatch):
    monkeypatch.setattr(limits, "ACTOR_RECORDS_PAUSE_S", LONG_S)

    async def story(owner, service):
        owner.publish(owner.actor(b"a"))
        await service.until(lambda: service.batches)
        owner.publish(owner.actor(b"b", name="lives"))
        await owner.round_trip()
        owner.publish(owner.actor(b"c"))
        await owner.round_trip()
        assert service.batches == [{b"a" * 16: ALIVE}, {}, {}], "only the test itself asked"
        assert await owner.reporter.flushed(WAIT_S)
        assert service.batches[3:] == [{b"b" * 16: ALIVE, b"c" * 16: ALIVE}]

    told(story)


def test_the_pause_ends_by_itself(told, monkeypatch):
    monkeypatch.setattr(limits, "ACTOR_RECORDS_PAUSE_S", 0.01)

    async def story(owner, service):
        for letter in (b"a", b"b"):
            owner.publish(owner.actor(letter))
            await service.until(lambda letter=letter: {letter * 16: ALIVE} in service.batches)

    told(story)


def test_a_name_that_becomes_free_does_not_wait_for_the_pause(told, monkeypatch):
    monkeypatch.setattr(limits, "ACTOR_RECORDS_PAUSE_S", LONG_S)

    async def story(owner, service):
        named = owner.actor(b"a", name="taken")
        owner.publish(named)
        await service.until(lambda: service.batches)
        await owner.reporter.names_free(WAIT_S)  # none is dying
        service.open.clear()
        end(named)
        waiting = asyncio.ensure_future(owner.reporter.names_free(WAIT_S))
        await service.until(lambda: service.tried == 2)
        assert not waiting.done(), "the GCS has not said that it is free"
        service.open.set()
        await waiting
        assert service.batches[1:] == [{b"a" * 16: DEAD}]

    told(story)


def test_whoever_waits_for_names_waits_for_a_bounded_time(told):
    async def story(owner, service):
        service.open.clear()
        end(owner.actor(b"a", name="taken"))
        await owner.reporter.names_free(0.01)
        assert not await owner.reporter.flushed(0.01)
        assert service.batches == []

    told(story)


AWAY = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED]


def test_while_the_gcs_is_away_the_newest_record_is_kept_for_it(told, monkeypatch):
    monkeypatch.setattr(limits, "RECONNECT_DELAY_MIN_S", 0.001)

    async def story(owner, service):
        first = owner.actor(b"a")
        service.errors += AWAY * 2
        service.open.clear()
        owner.publish(first)
        await service.until(lambda: service.tried == 1)
        end(first)
        owner.publish(owner.actor(b"b"))
        service.open.set()
        assert await owner.reporter.flushed(WAIT_S)
        assert service.batches == [{b"a" * 16: DEAD, b"b" * 16: ALIVE}]
        assert service.tried == len(AWAY) * 2 + 1

    told(story)


def test_what_the_gcs_does_not_want_is_not_repeated(told):
    async def story(owner, service):
        service.errors.append(grpc.StatusCode.INVALID_ARGUMENT)
        end(owner.actor(b"a", name="odd"))
        assert await owner.reporter.flushed(WAIT_S)
        await owner.reporter.names_free(WAIT_S)
        assert (service.tried, service.batches) == (1, [])

    told(story)


def test_nothing_leaves_before_it_may_and_then_all_at_once(told):
    known = asyncio.Event()

    async def story(owner, service):
        for letter in (b"a", b"b"):
            owner.publish(owner.actor(letter))
        await owner.round_trip()
        assert service.batches == [{}]
        known.set()
        assert await owner.reporter.flushed(WAIT_S)
        assert service.batches[1:] == [{b"a" * 16: ALIVE, b"b" * 16: ALIVE}]

    told(story, known.wait)


@pytest.mark.parametrize("error", [None, grpc.StatusCode.UNAVAILABLE])
def test_after_closing_nothing_is_reported(told, io, error):
    async def story(owner, service):
        service.open.clear()
        owner.publish(owner.actor(b"a"))
        owner.publish(owner.actor(b"b"))
        await service.until(lambda: service.tried == 1)
        owner.publish(owner.actor(b"c"))
        owner.reporter.close()
        owner.publish(owner.actor(b"d"))
        service.errors += [error] if error else []
        sending = list(io.keeper._tasks)
        service.open.set()
        await asyncio.gather(*sending)
        assert service.tried == 1, "what was on its way came, nothing else"

    told(story)
