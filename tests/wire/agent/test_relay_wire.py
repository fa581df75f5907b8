"""A relay over real gRPC, between nodes and a GCS that notes what comes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import grpc
import pytest

from cluster_api.v1 import node_session_pb2 as n
from cluster_common.transport.endpoints import bind, make_server
from cluster_common.transport.task_keeper import TaskKeeper
from raylet_agent import limits
from raylet_agent.shell import gcs_routes
from raylet_agent.shell.node_session import NodeSession
from raylet_agent.shell.relay import Relay
from tests.unit.raylet_agent.agent_world import HERE, World
from tests.wire.agent.shared_stream_rig import (
    NODES,
    WAIT_S,
    SharedRig,
    frame,
    read,
    register,
    until,
)

A, B = NODES[:2]


class RelayRig(SharedRig):
    """A GCS, a relay, and nodes with the real session."""

    def __init__(self):
        super().__init__()
        self._keeper = TaskKeeper("test")
        self._relays = []
        self._sessions = []

    async def start(self):
        await super().start()
        self.relay_address, self.relay_server = await self.relay(self.address)

    async def relay(self, gcs_address, port=0):
        relay = Relay(gcs_address, self._keeper)
        self._relays.append(relay)
        address = await self.serve(relay, port)
        return address, self._servers[-1]

    async def node(self, via):
        """Keeps a session; returns the queue of its welcomes."""
        core = World().core
        core.facts.gcs_address = self.address
        core.facts.cluster_id = b""
        host = SimpleNamespace(core=core, gcs=None, run_effects=core.drain)
        welcomes = asyncio.Queue()
        session = NodeSession(host, 60.0, lambda: welcomes.put_nowait(None), via=via)
        self._sessions.append(asyncio.ensure_future(session.run()))
        return welcomes

    async def close(self):
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)
        await super().close()
        await self._keeper.close()
        for relay in self._relays:
            await relay.close()


@pytest.fixture
async def rig():
    made = RelayRig()
    await made.start()
    yield made
    await made.close()


async def next_welcome(welcomes):
    await asyncio.wait_for(welcomes.get(), WAIT_S)


def nodes_of(streams):
    """How many nodes each stream carries."""
    return [len({item.node_id for each in frames for item in each.items}) for frames in streams]


async def opened(rig, node_id, incarnation=1):
    call = rig.stub(rig.relay_address).Connect()
    await call.write(register(node_id, incarnation))
    assert await read(call) == ["welcome"]
    return call


async def test_nodes_behind_a_relay_share_one_stream(rig):
    calls = {node_id: await opened(rig, node_id) for node_id in (A, B)}
    assert nodes_of(rig.gcs.streams) == [2]
    for node_id, call in calls.items():
        await call.write(frame(node_id, demand=n.DemandReport(version=3)))
        await rig.gcs.tell(n.GcsItem(node_id=node_id, ping=n.Ping(nonce=node_id[0])))
        assert (await call.read()).items[0].ping.nonce == node_id[0]
    await until(lambda: len(rig.gcs.items("demand")) == 2, "both were heard")


async def test_a_node_that_breaks_is_the_only_one_that_leaves(rig):
    broken, staying = await opened(rig, A), await opened(rig, B)
    broken.cancel()
    await until(lambda: rig.gcs.items("session_left", A), "the GCS heard")
    await rig.gcs.tell(n.GcsItem(node_id=B, ping=n.Ping(nonce=1)))
    assert await read(staying) == ["ping"]


async def test_a_node_that_ends_its_session_in_order_is_ended_in_order(rig):
    call = await opened(rig, A)
    await opened(rig, B)
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() == grpc.StatusCode.OK
    await until(lambda: rig.gcs.items("session_left", A), "the GCS heard")


async def test_a_refusal_reaches_its_node_and_no_other(rig):
    staying = await opened(rig, A)
    rig.gcs.refused.add(B)
    call = rig.stub(rig.relay_address).Connect()
    await call.write(register(B))
    assert (await call.read()).items[0].refused.reason == "declared_dead"
    await rig.gcs.tell(n.GcsItem(node_id=A, ping=n.Ping(nonce=1)))
    assert await read(staying) == ["ping"]


async def test_the_end_of_the_stream_ends_every_session_with_a_reason(rig):
    calls = [await opened(rig, node_id) for node_id in (A, B)]
    rig.gcs.drop()
    for call in calls:
        with pytest.raises(grpc.RpcError) as caught:
            while await call.read() is not grpc.aio.EOF:
                pass
            await call
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert caught.value.details() == "dropped by the test"


NONSENSE = {
    "an empty frame": [n.AgentFrame()],
    "no registration": [frame(A, snapshot=n.ResourceSnapshot())],
    "no node id": [register(b"")],
    "a long node id": [register(A + A)],
    "an item of another node": [register(A), frame(B, goodbye=n.Goodbye())],
    "another registration": [register(A), register(A, 2)],
    "a word that is the relay's": [register(A), frame(A, session_left=n.SessionLeft())],
    "another node with the registration": [
        n.AgentFrame(items=[*register(A).items, *frame(B, goodbye=n.Goodbye()).items])
    ],
}


@pytest.mark.parametrize("frames", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_ends_its_own_session_and_no_other(rig, frames):
    staying = await opened(rig, NODES[4])
    call = rig.stub(rig.relay_address).Connect()
    for each in frames:
        await call.write(each)
    with pytest.raises(grpc.RpcError) as caught:
        while await call.read() is not grpc.aio.EOF:
            pass
        await call
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert rig.gcs.items("goodbye") == []
    await rig.gcs.tell(n.GcsItem(node_id=NODES[4], ping=n.Ping(nonce=1)))
    assert await read(staying) == ["ping"]


async def test_a_relay_carries_so_many_and_no_more(rig, monkeypatch):
    monkeypatch.setattr(limits, "RELAYED_NODES_MAX", 1)
    await opened(rig, A)
    call = rig.stub(rig.relay_address).Connect()
    await call.write(register(B))
    assert await call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_relay_that_does_not_reach_the_gcs_says_so(rig, monkeypatch):
    monkeypatch.setattr(limits, "RELAY_REACHES_GCS_S", 0.1)
    address, _ = await rig.relay("127.0.0.1:1")
    call = rig.stub(address).Connect()
    await call.write(register(A))
    assert await call.code() == grpc.StatusCode.UNAVAILABLE
    assert await call.details() == "this relay does not reach the GCS at 127.0.0.1:1"


# ---- the node's side


async def test_a_node_joins_through_its_relay_and_says_that_it_has_one(rig):
    await next_welcome(await rig.node(rig.relay_address))
    await next_welcome(await rig.node(""))
    told = [item.register.has_relay for item in rig.gcs.items("register")]
    assert told == [True, False]


async def test_a_dead_relay_costs_a_node_nothing(rig):
    await next_welcome(await rig.node("127.0.0.1:1"))
    assert rig.gcs.items("register")[0].register.incarnation == 1


async def test_a_relay_that_ends_leaves_its_node_to_find_the_gcs_itself(rig):
    welcomes = await rig.node(rig.relay_address)
    await next_welcome(welcomes)
    await rig.relay_server.stop(None)
    await next_welcome(welcomes)
    assert [item.register.incarnation for item in rig.gcs.items("register", HERE)] == [1, 2]
    assert len(rig.gcs.streams) == 2


async def test_a_relay_that_is_cut_off_is_passed_by(rig, monkeypatch):
    monkeypatch.setattr(limits, "RELAY_REACHES_GCS_S", 0.05)
    address, _ = await rig.relay("127.0.0.1:1")
    await next_welcome(await rig.node(address))


async def test_a_relay_that_is_none_is_passed_by(rig):
    server = make_server()
    port = bind(server, "127.0.0.1", 0)
    await server.start()
    try:
        await next_welcome(await rig.node(f"127.0.0.1:{port}"))
    finally:
        await server.stop(None)


async def test_a_relay_without_an_answer_is_passed_by(rig, monkeypatch):
    """It takes the registration, and its way to the GCS is silent."""
    monkeypatch.setattr(limits, "RELAY_WELCOME_S", 0.2)
    silent = SharedRig()
    await silent.start()
    silent.gcs.welcomes = False
    try:
        address, _ = await rig.relay(silent.address)
        await next_welcome(await rig.node(address))
        assert len(rig.gcs.items("register", HERE)) == 1
    finally:
        await silent.close()


async def test_a_node_that_hears_nothing_asks_and_goes_another_way(rig):
    """A relay that hangs keeps its connections: only an answer from the GCS shows that it works."""
    silent = SharedRig()
    await silent.start()
    silent.gcs.ping_interval_ms = 400
    silent.gcs.answers_pings = False
    try:
        address, _ = await rig.relay(silent.address)
        welcomes = await rig.node(address)
        await next_welcome(welcomes)
        await next_welcome(welcomes)
        assert len(silent.gcs.items("ping", HERE)) >= 1
        assert len(rig.gcs.items("register", HERE)) == 1
    finally:
        await silent.close()


async def test_a_node_that_is_answered_stays_with_its_relay(rig):
    rig.gcs.ping_interval_ms = 400
    await next_welcome(await rig.node(rig.relay_address))
    await until(lambda: len(rig.gcs.items("ping")) >= 5, "it asked five times")
    assert len(rig.gcs.items("register")) == 1


async def test_a_node_on_a_detour_returns_when_its_relay_answers(rig, monkeypatch):
    monkeypatch.setattr(limits, "RELAY_RETURN_S_MIN", 0.05)
    monkeypatch.setattr(limits, "RELAY_RETURN_S_MAX", 0.1)
    await rig.relay_server.stop(None)
    welcomes = await rig.node(rig.relay_address)
    await next_welcome(welcomes)
    assert len(rig.gcs.streams) == 1
    await rig.relay(rig.address, int(rig.relay_address.rpartition(":")[2]))
    await next_welcome(welcomes)
    await until(lambda: len(rig.gcs.items("register", HERE)) == 2, "it registered anew")


def test_a_route_that_worked_for_long_is_returned_to_soon(monkeypatch):
    routes = gcs_routes.GcsRoutes("gcs:1", "relay:1")
    routes._pause_s = 400.0
    routes.welcomed(30_000)
    routes.failed("it broke")
    assert (routes.is_relayed, routes._pause_s) == (False, 400.0)
    routes.failed("so did the other one")
    routes.welcomed(30_000)
    monkeypatch.setattr(limits, "RELAY_RETURN_S_MAX", -1.0)
    routes.failed("it broke again")
    assert routes._pause_s == limits.RELAY_RETURN_S_MIN
