"""A real agent process, a GCS and an owner that speak real gRPC to it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import agent_pb2_grpc, core_worker_pb2_grpc, node_session_pb2_grpc
from cluster_api.v1 import core_worker_pb2 as c
from cluster_api.v1 import node_session_pb2 as n
from cluster_common.resources import vector
from cluster_common.transport.endpoints import bind, make_channel, make_server

CLUSTER = b"c" * 16
OWNER = b"o" * 16
JOB = b"\0\0\0\1"
HERE = Path(__file__).parent
DEADLINE_S = 15.0


class StubGcs(node_session_pb2_grpc.NodeSessionServiceServicer):
    """Takes nodes in (or refuses them) and remembers what they say."""

    def __init__(self):
        self.registrations: asyncio.Queue[n.RegisterNode] = asyncio.Queue()
        self.items: asyncio.Queue[n.AgentItem] = asyncio.Queue()
        self.unheard: list[n.AgentItem] = []
        self.refusal = None
        self.may_welcome = asyncio.Event()
        self.may_welcome.set()
        self.node_id = b""
        self._context = None
        self._task = None
        self._writing = asyncio.Lock()

    async def Connect(self, _requests, context):
        self._context, self._task = context, asyncio.current_task()
        frame = await context.read()
        first = frame.items[0]
        self.node_id = first.node_id
        if self.refusal is not None:
            await context.write(n.GcsFrame(items=[n.GcsItem(refused=self.refusal)]))
            return
        self.registrations.put_nowait(first.register)
        await self.may_welcome.wait()
        welcome = n.Welcome(cluster_id=CLUSTER, epoch=1, session_name="session")
        async with self._writing:
            frame = n.GcsFrame(items=[n.GcsItem(node_id=self.node_id, welcome=welcome)])
            await context.write(frame)
        try:
            while isinstance(frame := await context.read(), n.AgentFrame):
                for item in frame.items:
                    self.items.put_nowait(item)
        except asyncio.CancelledError:
            # gRPC sends no status for a handler that merely ends as cancelled.
            await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped")

    async def send(self, **item):
        frame = n.GcsFrame(items=[n.GcsItem(node_id=self.node_id, **item)])
        async with self._writing:  # gRPC takes one write at a time
            await self._context.write(frame)

    def drop(self):
        """Breaks the session."""
        self._task.cancel()

    async def until(self, kind, condition=lambda _body: True):
        """The next item of a kind; others stay for later questions."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for item in self.unheard:
                    if item.WhichOneof("item") == kind and condition(getattr(item, kind)):
                        self.unheard.remove(item)
                        return getattr(item, kind)
                self.unheard.append(await self.items.get())


class StubDriver(core_worker_pb2_grpc.CoreWorkerServiceServicer):
    """Takes worker output."""

    def __init__(self):
        self.lines: asyncio.Queue[tuple[str, bool, str]] = asyncio.Queue()

    async def PushLogs(self, _requests, context):
        while isinstance(frame := await context.read(), c.LogFrame):
            for batch in frame.batches:
                for line in batch.lines:
                    self.lines.put_nowait((batch.name, batch.is_error, line))
        return c.PushLogsResponse()


class Owner:
    """One lease session."""

    def __init__(self, address, owner_id=OWNER):
        self.owner_id = owner_id
        self._channel = make_channel(address, own_connection=True)
        self.stub = agent_pb2_grpc.AgentServiceStub(self._channel)
        self._call = self.stub.LeaseSession()
        self._items: list[a.LeaseItem] = []

    async def open(self, **fields):
        opening = a.OpenOwner(
            owner_id=self.owner_id,
            job_id=JOB,
            is_home=True,
            is_driver=True,
            owner_address="127.0.0.1:1",
            log_to_driver=True,
            **fields,
        )
        await self.send(open=opening)
        return await self.next("welcome")

    async def send(self, **item):
        await self._call.write(a.OwnerFrame(items=[a.OwnerItem(**item)]))

    async def ask(self, number, cpus=1, **fields):
        request = a.LeaseRequest(
            lease_id=self.owner_id + number.to_bytes(8, "big"),
            job_id=JOB,
            bundle_index=-1,
            **fields,
        )
        request.resources.amounts.update(vector({"CPU": cpus}))
        await self.send(request=request)
        return request.lease_id

    async def give_back(self, lease_id, **fields):
        await self.send(return_lease=a.LeaseReturn(lease_ids=[lease_id], **fields))

    async def next(self, kind):
        """The next item, which must be of this kind (give_back and node changes aside)."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                while self._items:
                    item = self._items.pop(0)
                    found = item.WhichOneof("item")
                    if found in ("give_back", "node_change") and found != kind:
                        continue
                    assert found == kind, f"{item}"
                    return getattr(item, kind)
                frame = await self._call.read()
                assert isinstance(frame, a.LeaseFrame), "the session ended"
                self._items += frame.items

    async def state(self):
        return await self.stub.GetAgentState(a.GetAgentStateRequest())

    async def close(self):
        self._call.cancel()
        await self._channel.close()


class Rig:
    """Everything of one test."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.gcs = StubGcs()
        self.driver = StubDriver()
        self._servers = []
        self.process: subprocess.Popen | None = None
        self._owners: list[Owner] = []
        self.node_id = b""

    async def start(self, *flags, env=None, wait=True, pass_fds=()):
        self.gcs_address = await self._serve(
            node_session_pb2_grpc.add_NodeSessionServiceServicer_to_server, self.gcs
        )
        self.driver_address = await self._serve(
            core_worker_pb2_grpc.add_CoreWorkerServiceServicer_to_server, self.driver
        )
        self.log = (self.folder / "agent.log").open("wb")
        self.process = subprocess.Popen(  # noqa: ASYNC220 - must outlive any loop
            [sys.executable, "-m", "raylet_agent", *self.flags(), *flags],
            env={**os.environ, "PYTHONPATH": str(HERE), **(env or {})},
            stdout=self.log,
            stderr=self.log,
            pass_fds=pass_fds,
        )
        if wait:
            registration = await asyncio.wait_for(self.gcs.registrations.get(), DEADLINE_S)
            self.address = registration.address
            await self.poll(self.port_file.exists)
            assert json.loads(self.port_file.read_text())["address"] == self.address
        return self

    @property
    def port_file(self):
        return self.folder / "port"

    def flags(self):
        return [
            *("--gcs-address", self.gcs_address),
            *("--num-cpus", "2"),
            *("--port-file", str(self.port_file)),
            *("--temp-dir", str(self.folder)),
            *("--worker-entry", "agent_fake_worker:run"),
            *("--preload", "agent_fake_worker"),
        ]

    async def _serve(self, add, servicer):
        server = make_server()
        add(servicer, server)
        port = bind(server, "127.0.0.1", 0)
        await server.start()
        self._servers.append(server)
        return f"127.0.0.1:{port}"

    async def owner(self, owner_id=OWNER, **fields):
        owner = Owner(self.address, owner_id)
        self._owners.append(owner)
        await owner.open(driver_address=self.driver_address, **fields)
        return owner

    async def poll(self, condition, deadline_s=DEADLINE_S):
        async with asyncio.timeout(deadline_s):
            while not condition():  # noqa: ASYNC110 - processes tell no event
                await asyncio.sleep(0.005)

    async def ended(self, deadline_s=DEADLINE_S):
        """The agent's exit status."""
        await self.poll(lambda: self.process.poll() is not None, deadline_s)
        return self.process.returncode

    async def close(self):
        for owner in self._owners:
            await owner.close()
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGINT)
            await self.ended()
            self.log.close()
        for server in self._servers:
            await server.stop(None)


def alive(pid):
    """Whether a process runs (a zombie does not)."""
    try:
        text = Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] != "Z"
