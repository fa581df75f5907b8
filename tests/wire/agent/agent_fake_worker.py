"""A worker that speaks the agent's link over real gRPC and does what its environment tells it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import uvloop

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import agent_pb2_grpc
from cluster_common.transport.endpoints import bind, make_channel, make_server
from cluster_common.worker_start import WorkerStart


def run(start: WorkerStart) -> None:
    if os.environ.get("FAKE_DIES"):
        print("no such library", file=sys.stderr)  # noqa: T201 - its output is what is tested
        sys.exit(7)
    if os.environ.get("FAKE_CHILD"):
        child = subprocess.Popen(
            ["sleep", "600"], start_new_session=os.environ["FAKE_CHILD"] == "new"
        )
        print(f"child {child.pid}")  # noqa: T201 - its output is what is tested
    uvloop.run(_serve(start))


async def _serve(start: WorkerStart) -> None:
    server = make_server()
    port = bind(server, start.host, 0)
    await server.start()
    channel = make_channel(start.agent_address)
    call = agent_pb2_grpc.AgentServiceStub(channel).WorkerLink()
    register = a.RegisterWorker(
        worker_id=start.worker_id, pid=os.getpid(), address=f"{start.host}:{port}"
    )
    await call.write(a.WorkerFrame(items=[a.WorkerItem(register=register)]))
    while True:
        frame = await call.read()
        if not isinstance(frame, a.WorkerCommandFrame):
            os._exit(0)
        for item in frame.items:
            await _obey(item, call)


async def _obey(item: a.WorkerCommand, call) -> None:
    kind = item.WhichOneof("item")
    if kind == "exit":
        exiting = a.WorkerExiting(intended=True, reason=item.exit.reason)
        await call.write(a.WorkerFrame(items=[a.WorkerItem(exiting=exiting)]))
        await asyncio.sleep(0)
        os._exit(0)
    elif kind == "lease_begin":
        print(f"begin {item.lease_begin.name}")  # noqa: T201 - its output is what is tested
        if item.lease_begin.name == "crash":
            os._exit(9)
        if item.lease_begin.name == "block":
            blocked = a.WorkerBlocked(lease_id=item.lease_begin.lease_id)
            await call.write(a.WorkerFrame(items=[a.WorkerItem(blocked=blocked)]))
    elif kind == "create_actor":
        outcome = a.ActorCreationOutcome(
            actor_id=item.create_actor.actor_id,
            incarnation=item.create_actor.incarnation,
            ok=item.create_actor.creation_spec != b"bad",
            error=b"pickled",
            message="constructor",
        )
        await call.write(a.WorkerFrame(items=[a.WorkerItem(actor_created=outcome)]))
