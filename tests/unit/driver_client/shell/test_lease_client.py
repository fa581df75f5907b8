"""Lease sessions over real gRPC, to agents that let an owner in when the test says so."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from grpc import aio

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import agent_pb2_grpc as rpc
from cluster_api.v1 import node_session_pb2 as ns
from cluster_common.transport.endpoints import bind, make_server
from driver_client import limits
from driver_client.shell.lease_client import LeaseClient

WAIT_S = 20.0
GROUP = b"g" * 24
AGENTS = 6


class Agents(rpc.AgentServiceServicer):
    """All agents of the test: one server, a port for each."""

    def __init__(self):
        self.first_frames = []
        """Of each session, in order of arrival: kinds of its items."""
        self.not_let_in = 0
        self.most_not_let_in = 0
        self.let_in = asyncio.Semaphore(0)
        self.changed = asyncio.Condition()
        self.refusal = None

    async def LeaseSession(self, _requests, context):
        frame = await context.read()
        self.first_frames.append([item.WhichOneof("item") for item in frame.items])
        self.not_let_in += 1
        self.most_not_let_in = max(self.most_not_let_in, self.not_let_in)
        await self._tell()
        await self.let_in.acquire()
        self.not_let_in -= 1
        if self.refusal is not None:
            await context.write(pb.LeaseFrame(items=[pb.LeaseItem(refused=self.refusal)]))
            return
        await context.write(pb.LeaseFrame(items=[pb.LeaseItem(welcome=pb.AgentWelcome())]))
        await self._tell()
        while await context.read() is not aio.EOF:
            pass

    async def _tell(self):
        async with self.changed:
            self.changed.notify_all()

    async def until(self, condition):
        async with asyncio.timeout(WAIT_S), self.changed:
            await self.changed.wait_for(condition)

    def let(self, count):
        for _ in range(count):
            self.let_in.release()


class Holder:
    """Who asked for a lease."""

    def __init__(self):
        self.failed = []

    def lease_failed(self, failed):
        self.failed.append(failed)


@pytest.fixture
def opened(io):
    """Runs a story on the I/O thread; it gets the agents and their addresses."""

    def run(story):
        async def staged():
            async with served() as (agents, addresses):
                await story(agents, addresses)

        io.call(staged(), WAIT_S)

    return run


@asynccontextmanager
async def served():
    server, agents = make_server(), Agents()
    rpc.add_AgentServiceServicer_to_server(agents, server)
    addresses = [f"127.0.0.1:{bind(server, '127.0.0.1', 0)}" for _ in range(AGENTS)]
    await server.start()
    try:
        yield agents, addresses
    finally:
        agents.let(AGENTS)
        await server.stop(None)


def owner_at(io, home):
    lost = []
    client = LeaseClient(
        io, home, pb.OpenOwner, node_changed=lambda _change: None, home_lost=lost.append
    )
    return client, lost


def ask(client, number, address):
    """For a lease in a bundle of the agent at `address`."""
    holder = Holder()
    request = pb.LeaseRequest(lease_id=bytes([number]), placement_group_id=GROUP)
    client.request(request, holder, address)
    return holder


async def round_trip(address):
    """Time in which a connection that was begun would have come to an agent."""
    _, writer = await asyncio.open_connection(*address.split(":"))
    writer.close()
    await writer.wait_closed()


def test_so_many_sessions_open_at_once_and_the_others_follow(io, opened, monkeypatch):
    monkeypatch.setattr(limits, "AGENT_SESSIONS_OPENING_MAX", 2)

    async def story(agents, addresses):
        client, _ = owner_at(io, addresses[0])
        for number, address in enumerate(addresses[1:]):
            ask(client, number, address)
        for expected in range(2, AGENTS + 1):
            await agents.until(lambda expected=expected: len(agents.first_frames) == expected)
            await round_trip(addresses[0])
            assert len(agents.first_frames) == expected, "the next one waits for a welcome"
            agents.let(1)
        agents.let(1)
        await agents.until(lambda: agents.not_let_in == 0)
        assert agents.most_not_let_in == 2
        await client.close("the test is over")

    opened(story)


def test_what_was_asked_meanwhile_leaves_with_the_first_frame(io, opened, monkeypatch):
    monkeypatch.setattr(limits, "AGENT_SESSIONS_OPENING_MAX", 1)

    async def story(agents, addresses):
        client, _ = owner_at(io, addresses[0])
        for number in range(3):
            ask(client, number, addresses[1])
        await agents.until(lambda: agents.first_frames)
        client.cancel([bytes([0])])
        agents.let(2)
        await agents.until(lambda: len(agents.first_frames) == 2)
        assert agents.first_frames == [
            ["open"],
            ["open", "request", "request", "request", "cancel"],
        ]
        await client.close("the test is over")

    opened(story)


def test_an_agent_that_is_gone_gives_its_place_to_the_next(io, opened, monkeypatch):
    monkeypatch.setattr(limits, "AGENT_SESSIONS_OPENING_MAX", 1)

    async def story(agents, addresses):
        async with served() as (_, gone):
            pass
        agents.let(AGENTS)
        client, _ = owner_at(io, addresses[0])
        holders = [ask(client, number, gone[number]) for number in range(3)]
        ask(client, 9, addresses[1])
        await agents.until(lambda: len(agents.first_frames) == 2 and not agents.not_let_in)
        async with asyncio.timeout(WAIT_S):
            while not all(holder.failed for holder in holders):  # noqa: ASYNC110 - a plain list
                await asyncio.sleep(0.001)
        await client.close("the test is over")

    opened(story)


def test_sessions_that_end_while_they_wait_leave_no_place_taken(io, opened, monkeypatch):
    monkeypatch.setattr(limits, "AGENT_SESSIONS_OPENING_MAX", 1)

    async def story(agents, addresses):
        client, _ = owner_at(io, addresses[0])
        ask(client, 1, addresses[1])
        await agents.until(lambda: agents.first_frames)
        client.end_all("the owner counts as dead")  # the one that opens, and the one that waits
        agents.let(AGENTS)
        client.move_home(addresses[2])
        await agents.until(lambda: len(agents.first_frames) == 2 and not agents.not_let_in)
        await client.close("the test is over")

    opened(story)


def test_a_process_is_known_at_home_when_its_home_agent_let_it_in(io, opened, monkeypatch):
    monkeypatch.setattr(limits, "AGENT_SESSIONS_OPENING_MAX", 1)

    async def story(agents, addresses):
        client, _ = owner_at(io, addresses[0])
        known = asyncio.ensure_future(client.known_at_home())
        await agents.until(lambda: agents.first_frames)
        await round_trip(addresses[0])
        assert not known.done()
        agents.let(1)
        await known
        await client.known_at_home()  # from now on at once
        await client.close("the test is over")

    opened(story)


def test_whoever_waits_to_be_let_in_hears_at_once_that_it_is_refused(io, opened):
    async def story(agents, addresses):
        agents.refusal = ns.Refused(reason="other_cluster", message="this is another cluster")
        agents.let(1)
        client, _ = owner_at(io, addresses[0])
        assert not await client.let_in(WAIT_S)
        assert client.refusal == "this is another cluster"
        await client.close("the test is over")

    opened(story)


def test_the_last_words_are_not_waited_for_when_the_agent_ends_the_session(io, opened):
    async def story(agents, addresses):
        agents.let(1)
        client, _ = owner_at(io, addresses[0])
        assert await client.let_in(WAIT_S)
        session = client.home
        session.send(pb.OwnerItem())
        waiting = asyncio.ensure_future(session.drained(WAIT_S * 10))
        session.close()
        await asyncio.wait_for(waiting, WAIT_S)

    opened(story)


def test_another_agent_does_not_make_a_process_known_and_nobody_waits_for_ever(
    io, opened, monkeypatch
):
    async def story(agents, addresses):
        async with served() as (_, gone):
            pass
        agents.let(1)
        client, lost = owner_at(io, gone[0])
        ask(client, 1, addresses[0])
        known = asyncio.ensure_future(client.known_at_home())
        await agents.until(lambda: agents.first_frames and not agents.not_let_in)
        await round_trip(addresses[0])
        assert not known.done()
        monkeypatch.setattr(limits, "CONNECT_TIMEOUT_S", 0.01)
        await client.known_at_home()
        known.cancel()
        async with asyncio.timeout(WAIT_S):
            while not lost:  # noqa: ASYNC110 - a plain list
                await asyncio.sleep(0.001)
        await client.close("the test is over")

    opened(story)
