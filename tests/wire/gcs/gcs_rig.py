"""A control service in this process, over real gRPC, and agents that follow a script."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
from grpc import aio

from cluster_api.v1 import (
    autoscaler_pb2_grpc,
    gcs_pb2_grpc,
    node_session_pb2_grpc,
    placement_groups_pb2_grpc,
)
from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common.transport.endpoints import make_channel
from gcs_service.settings import GcsSettings
from gcs_service.shell import boot
from gcs_service.shell.control_service import ControlService

WAIT_S = 10
DRIVER = b"d" * 16


async def until(condition, what):
    """Polls a (perhaps asynchronous) condition; the deadline names what was missing."""
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                found = condition()
                if asyncio.iscoroutine(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"not within {WAIT_S} s: {what}") from None


class ScriptedAgent:
    """Registers one node and answers what it is told, as an agent with nothing to do would."""

    def __init__(self, gcs, node_id, *, cpus=4, labels=None, is_scheduler=False, listens=True):
        self.gcs = gcs
        self.node_id = node_id
        self.total = t.ResourceSet(amounts={"CPU": cpus * 10_000})
        self.labels = labels or {}
        self.is_scheduler = is_scheduler
        self.listens = listens
        self.answers_bundles = True
        self.cluster_id = b""
        self.bundles = {}
        self.detached = {}
        self.got = []
        self.applied = self.version = self.incarnation = 0
        self.last_revision = 0
        self.first = None
        self._port = None
        self._task = None
        self._channel = None

    async def connect(self):
        """Opens a session; returns its first item."""
        if self._port is None:
            self._port = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
        host, port = self._port.sockets[0].getsockname()
        address = f"{host}:{port}"
        if not self.listens:
            self._port.close()
            await self._port.wait_closed()
        self._channel = make_channel(self.gcs.address, own_connection=True)
        stub = node_session_pb2_grpc.NodeSessionServiceStub(self._channel)
        self.call = stub.Connect()
        self.incarnation += 1
        self.applied = 0
        register = ns.RegisterNode(
            cluster_id=self.cluster_id,
            incarnation=self.incarnation,
            address=address,
            total=self.total,
            labels=self.labels,
            is_scheduler=self.is_scheduler,
            last_revision=self.last_revision,
            bundles=[held for held, _ in self.bundles.values()],
            detached=list(self.detached.values()),
            snapshot=self.snapshot(),
        )
        await self.call.write(frame(self.node_id, register=register))
        first = await asyncio.wait_for(self.call.read(), WAIT_S)
        self.first = first.items[0]
        if self.first.WhichOneof("item") == "welcome":
            self.cluster_id = self.first.welcome.cluster_id
        self._task = asyncio.get_running_loop().create_task(self._serve(first.items[1:]))
        return self.first

    def snapshot(self):
        self.version += 1
        free = self.total.amounts["CPU"] - sum(
            held.resources.amounts["CPU"] for held, _ in self.bundles.values()
        )
        return ns.ResourceSnapshot(
            version=self.version,
            total=self.total,
            available=t.ResourceSet(amounts={"CPU": free}),
            labels=self.labels,
            applied_reservations=self.applied,
        )

    async def say(self, **item):
        await self.call.write(frame(self.node_id, **item))

    def items(self, kind):
        return [getattr(item, kind) for item in self.got if item.WhichOneof("item") == kind]

    async def break_session(self):
        """The stream ends; the agent's port stays as it is."""
        self.call.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._channel.close()

    async def close(self):
        if self._task is not None:
            await self.break_session()
        if self._port is not None:
            self._port.close()

    async def _serve(self, items):
        with suppress(asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
            while True:
                self.got += items
                out = [answer for item in items for answer in self._answer(item)]
                if out:
                    out.append(ns.AgentItem(node_id=self.node_id, snapshot=self.snapshot()))
                    await self.call.write(ns.AgentFrame(items=out))
                read = await self.call.read()
                if read is aio.EOF:
                    return
                items = list(read.items)

    def _answer(self, item):
        kind = item.WhichOneof("item")
        if kind == "bundle" and self.answers_bundles:
            yield ns.AgentItem(node_id=self.node_id, bundle_answer=self._bundle(item.bundle))
        elif kind == "start_detached_actor":
            start = item.start_detached_actor
            self.applied = max(self.applied, start.reservation_seq)
            worker = {"worker_id": b"w" * 16, "worker_address": "127.0.0.1:1", "pid": 7}
            named = {"actor_id": start.actor_id, "incarnation": start.incarnation}
            self.detached[start.actor_id] = ns.DetachedActorHeld(**named, **worker)
            started = ns.DETACHED_ACTOR_EVENT_KIND_STARTED
            event = ns.DetachedActorEvent(**named, **worker, kind=started)
            yield ns.AgentItem(node_id=self.node_id, detached_actor=event)
        elif kind == "kill_detached_actor":
            self.detached.pop(item.kill_detached_actor.actor_id, None)

    def _bundle(self, command):
        self.applied = max(self.applied, command.reservation_seq)
        group = command.placement_group_id
        takes = (ns.BUNDLE_ACTION_PREPARE, ns.BUNDLE_ACTION_PREPARE_AND_COMMIT)
        commits = (ns.BUNDLE_ACTION_COMMIT, ns.BUNDLE_ACTION_PREPARE_AND_COMMIT)
        for bundle in command.bundles:
            if command.action in takes:
                held = ns.HeldBundle(
                    placement_group_id=group,
                    index=bundle.index,
                    attempt=command.attempt,
                    resources=bundle.resources,
                )
                self.bundles[group, bundle.index] = (held, command.attempt)
        for key in [key for key in self.bundles if key[0] == group]:
            if command.action in commits:
                self.bundles[key][0].committed = True
            elif command.action in (ns.BUNDLE_ACTION_CANCEL, ns.BUNDLE_ACTION_RETURN):
                del self.bundles[key]
        return ns.BundleAnswer(
            action=command.action,
            placement_group_id=group,
            attempt=command.attempt,
            ok=True,
            indexes=[bundle.index for bundle in command.bundles],
        )


class GroupSession:
    """One process's stream of placement groups; `newest` has the last record of each."""

    def __init__(self, stub):
        self.call = stub.Session()
        self.newest = {}
        self.accepted, self.removed, self.unknown = [], [], []
        self.refusals = {}
        self.states = {}
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def ask(self, **item):
        await self.call.write(pg.GroupRequestFrame(items=[pg.GroupRequest(**item)]))

    async def state(self, group_id, wanted):
        def reached():
            record = self.newest.get(group_id)
            return record if record is not None and record.state == wanted else None

        name = pg.PlacementGroupState.Name(wanted)
        return await until(reached, f"group {group_id.hex()} is {name}")

    async def close(self):
        self.call.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _read(self):
        with suppress(asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
            while (read := await self.call.read()) is not aio.EOF:
                for record in read.groups:
                    self.newest[record.spec.placement_group_id] = record
                    story = self.states.setdefault(record.spec.placement_group_id, [])
                    story.append(record.state)
                self.accepted += read.create_accepted
                self.removed += read.removal_accepted
                self.unknown += read.unknown
                self.refusals |= {r.placement_group_id: r for r in read.refusals}


class GcsRig:
    """The service, stubs for all of it, and everything to be closed at the end."""

    def __init__(self, folder):
        self.folder = folder
        self.service = None
        self.port = 0
        self.agents = []
        self._sessions = []

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    async def start(self, **settings):
        options = {"storage": "sqlite", "storage_path": str(self.folder)} | settings
        made = GcsSettings(port=self.port, **options)
        made.check()
        self.service = ControlService(made, boot.open_storage(made))
        self.port = await self.service.start()
        self.channel = make_channel(self.address)
        self.nodes = gcs_pb2_grpc.NodeServiceStub(self.channel)
        self.kv = gcs_pb2_grpc.KvServiceStub(self.channel)
        self.jobs = gcs_pb2_grpc.JobServiceStub(self.channel)
        self.actors = gcs_pb2_grpc.ActorServiceStub(self.channel)
        self.status = gcs_pb2_grpc.StatusServiceStub(self.channel)
        self.groups = placement_groups_pb2_grpc.PlacementGroupServiceStub(self.channel)
        self.autoscaler = autoscaler_pb2_grpc.AutoscalerStateServiceStub(self.channel)

    async def stop(self):
        """Ends this life of the service; the rows stay in the folder."""
        for session in self._sessions:
            await session.close()
        self._sessions.clear()
        await self.channel.close()
        await self.service.stop()
        self.service = None

    async def restart(self):
        await self.stop()
        await self.start()

    async def close(self):
        for agent in self.agents:
            await agent.close()
        if self.service is not None:
            await self.stop()

    async def agent(self, number, **options):
        agent = ScriptedAgent(self, bytes([number]) * 16, **options)
        self.agents.append(agent)
        await agent.connect()
        return agent

    def group_session(self):
        session = GroupSession(self.groups)
        self._sessions.append(session)
        return session

    async def counters(self):
        return (await self.status.GetClusterStatus(g.GetStatusRequest())).counters

    async def alive(self, node_id):
        answer = await self.nodes.CheckAlive(g.CheckAliveRequest(node_ids=[node_id]))
        return answer.alive[0]


def frame(node_id, **item):
    return ns.AgentFrame(items=[ns.AgentItem(node_id=node_id, **item)])


def group_id(number):
    return DRIVER + number.to_bytes(8, "big")


def spec(number, bundles=1, *, cpus=1, strategy=pg.PLACEMENT_STRATEGY_PACK, **fields):
    bundle = pg.BundleSpec(resources=t.ResourceSet(amounts={"CPU": cpus * 10_000}))
    return pg.PlacementGroupSpec(
        placement_group_id=group_id(number),
        bundles=[bundle] * bundles,
        strategy=strategy,
        creator_owner_id=DRIVER,
        **fields,
    )
