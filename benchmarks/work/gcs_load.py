"""Loads for a control service: agents that only answer, groups that come and go, owners that end.

Run as processes of their own (`python -m benchmarks.work.gcs_load agents …`), so that what they cost
is not what is measured. They speak the real protocol over real streams, without workers or leases.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import socket
import sys
from typing import Any

import grpc
import uvloop
from grpc import aio

from cluster_api.v1 import (
    gcs_pb2_grpc,
    node_session_pb2_grpc,
    placement_groups_pb2_grpc,
)
from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common import ids
from cluster_common.transport.endpoints import make_channel

CPU = 10_000
NODE_CPUS = 4
RACK_NODES = 18
STREAMS_PER_CONNECTION = 100
REGISTRATIONS_AT_ONCE = 64
NICENESS = 10
"""Loads yield to the measuring process: the machine has few cores."""
GROUP_BUNDLES = 18
GROUPS_IN_FLIGHT = 64
_TAKES = (ns.BUNDLE_ACTION_PREPARE, ns.BUNDLE_ACTION_PREPARE_AND_COMMIT)
_GIVES_BACK = (ns.BUNDLE_ACTION_CANCEL, ns.BUNDLE_ACTION_RETURN)


class LoadAgent:
    """One node on one stream: registers, takes every bundle, gives it back when told."""

    def __init__(self, number: int, address: str) -> None:
        self.node_id = number.to_bytes(ids.NODE_ID_BYTES, "big")
        self._address = address
        self._labels = {"rack": f"r{number // RACK_NODES}"}
        self._is_scheduler = number == 1
        self._held: dict[tuple[bytes, int], int] = {}
        self._applied = 0
        self._version = 0

    async def connect(self, stub: Any) -> Any:
        """Opens the stream and registers; the call, once welcomed."""
        call = stub.Connect()
        register = ns.RegisterNode(
            incarnation=1,
            address=self._address,
            total=self._total(),
            labels=self._labels,
            is_scheduler=self._is_scheduler,
            snapshot=self._snapshot(),
        )
        item = ns.AgentItem(node_id=self.node_id, register=register)
        await call.write(ns.AgentFrame(items=[item]))
        first = await call.read()
        kind = first.items[0].WhichOneof("item")
        assert kind == "welcome", f"node {self.node_id.hex()}: {kind} instead of a welcome"
        return call

    async def serve(self, call: Any) -> None:
        """Answers until the service ends."""
        while (read := await call.read()) is not aio.EOF:
            items = [answer for item in read.items for answer in self._answers(item)]
            if items:
                items.append(ns.AgentItem(node_id=self.node_id, snapshot=self._snapshot()))
                await call.write(ns.AgentFrame(items=items))

    def _answers(self, item: ns.GcsItem) -> list[ns.AgentItem]:
        kind = item.WhichOneof("item")
        if kind == "ping":
            answer = ns.PingAnswer(nonce=item.ping.nonce)
            return [ns.AgentItem(node_id=self.node_id, ping_answer=answer)]
        if kind != "bundle":
            return []
        command = item.bundle
        group = command.placement_group_id
        self._applied = max(self._applied, command.reservation_seq)
        for bundle in command.bundles:
            if command.action in _TAKES:
                self._held[group, bundle.index] = bundle.resources.amounts["CPU"]
        if command.action in _GIVES_BACK:
            for key in [key for key in self._held if key[0] == group]:
                del self._held[key]
        answer = ns.BundleAnswer(
            action=command.action,
            placement_group_id=group,
            attempt=command.attempt,
            ok=True,
            indexes=[bundle.index for bundle in command.bundles],
        )
        return [ns.AgentItem(node_id=self.node_id, bundle_answer=answer)]

    def _total(self) -> t.ResourceSet:
        return t.ResourceSet(amounts={"CPU": NODE_CPUS * CPU})

    def _snapshot(self) -> ns.ResourceSnapshot:
        self._version += 1
        free = NODE_CPUS * CPU - sum(self._held.values())
        return ns.ResourceSnapshot(
            version=self._version,
            total=self._total(),
            available=t.ResourceSet(amounts={"CPU": free}),
            labels=self._labels,
            applied_reservations=self._applied,
        )


async def agents(address: str, nodes: int) -> None:
    """`nodes` streams; says `ready` when all are welcome."""
    # One listener for all: a service that dials a node's address must not be refused.
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    gate = asyncio.Semaphore(REGISTRATIONS_AT_ONCE)
    channels = [
        make_channel(address, own_connection=True)
        for _ in range(-(-nodes // STREAMS_PER_CONNECTION))
    ]
    stubs = [node_session_pb2_grpc.NodeSessionServiceStub(channel) for channel in channels]

    async def begin(number: int) -> tuple[LoadAgent, Any]:
        # Addresses differ: one address means one agent.
        agent = LoadAgent(number, f"{host}:{port}#{number}")
        async with gate:
            return agent, await agent.connect(stubs[number % len(stubs)])

    begun = await asyncio.gather(*(begin(number) for number in range(1, nodes + 1)))
    print("ready", flush=True)
    await asyncio.gather(*(agent.serve(call) for agent, call in begun), return_exceptions=True)


async def churn(address: str) -> None:
    """Keeps `GROUPS_IN_FLIGHT` groups being made and removed, for ever."""
    stub = placement_groups_pb2_grpc.PlacementGroupServiceStub(make_channel(address))
    call: Any = stub.Session()
    creator = os.urandom(16)
    numbers = itertools.count(1)

    def create() -> pg.GroupRequest:
        spec = pg.PlacementGroupSpec(
            placement_group_id=creator + next(numbers).to_bytes(8, "big"),
            bundles=[pg.BundleSpec(resources=t.ResourceSet(amounts={"CPU": CPU}))] * GROUP_BUNDLES,
            strategy=pg.PLACEMENT_STRATEGY_STRICT_SPREAD,
            creator_owner_id=creator,
        )
        return pg.GroupRequest(create=spec)

    await call.write(pg.GroupRequestFrame(items=[create() for _ in range(GROUPS_IN_FLIGHT)]))
    print("ready", flush=True)
    while (read := await call.read()) is not aio.EOF:
        out = [
            pg.GroupRequest(remove=record.spec.placement_group_id)
            for record in read.groups
            if record.state == pg.PLACEMENT_GROUP_STATE_CREATED
        ]
        out += [create() for _ in read.removal_accepted]
        if out:
            await call.write(pg.GroupRequestFrame(items=out))


async def owners(address: str) -> None:
    """Jobs begin and end without a pause: each end is told to every agent."""
    jobs = gcs_pb2_grpc.JobServiceStub(make_channel(address))
    print("ready", flush=True)
    while True:
        request = g.AddJobRequest(job=g.JobRecord(driver_id=os.urandom(16)))
        added = await jobs.AddJob(request)
        await jobs.FinishJob(g.FinishJobRequest(job_id=added.job_id))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", choices=("agents", "churn", "owners"))
    parser.add_argument("--address", required=True, help="host:port of the control service")
    parser.add_argument("--nodes", type=int, default=100)
    arguments = parser.parse_args()
    os.nice(NICENESS)
    match arguments.load:
        case "agents":
            work = agents(arguments.address, arguments.nodes)
        case "churn":
            work = churn(arguments.address)
        case _:
            work = owners(arguments.address)
    try:
        uvloop.run(work)
    except (grpc.RpcError, KeyboardInterrupt):
        sys.exit(1)


if __name__ == "__main__":
    main()
