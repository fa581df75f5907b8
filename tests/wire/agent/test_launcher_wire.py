from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from cluster_api.v1 import agent_pb2 as a
from tests.wire.agent.agent_rig import DEADLINE_S, HERE, Owner, alive


class Launcher:
    """The launcher as a child process, its lines as JSON."""

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "raylet_agent.launcher", "--preload", "agent_fake_worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(HERE)},
        )
        return self

    async def order(self, **order):
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        await self.process.stdin.drain()
        return await self.answer()

    async def answer(self):
        return json.loads(await asyncio.wait_for(self.process.stdout.readline(), DEADLINE_S))

    async def close(self):
        self.process.stdin.close()
        return await asyncio.wait_for(self.process.wait(), DEADLINE_S)


async def launch(rig, launcher, number):
    argv = [*rig.flags(), "--port-file", str(rig.folder / f"port{number}")]
    answer = await launcher.order(id=number, argv=argv, log=str(rig.folder / f"log{number}"))
    assert answer["id"] == number
    registration = await asyncio.wait_for(rig.gcs.registrations.get(), DEADLINE_S)
    assert registration.pid == answer["pid"]
    return answer["pid"], registration.address


async def serve_only(rig):
    from cluster_api.v1 import node_session_pb2_grpc

    rig.gcs_address = await rig._serve(
        node_session_pb2_grpc.add_NodeSessionServiceServicer_to_server, rig.gcs
    )


async def test_agents_are_forked_and_their_ends_told(rig):
    await serve_only(rig)
    launcher = await Launcher().start()
    pid, address = await launch(rig, launcher, 1)
    owner = Owner(address)
    rig._owners.append(owner)
    await owner.open()
    await owner.ask(1)
    worker = (await owner.next("grant")).pid
    os.kill(pid, signal.SIGKILL)
    assert await launcher.answer() == {"exited": pid, "status": -signal.SIGKILL}
    await rig.poll(lambda: not alive(worker), 1.0)
    other, _ = await launch(rig, launcher, 2)
    assert await launcher.close() == 0
    assert not alive(other)


async def test_a_killed_launcher_takes_all_with_it(rig):
    await serve_only(rig)
    launcher = await Launcher().start()
    pid, address = await launch(rig, launcher, 1)
    owner = Owner(address)
    rig._owners.append(owner)
    await owner.open()
    await owner.ask(1)
    worker = (await owner.next("grant")).pid
    workers = (await owner.stub.GetAgentState(a.GetAgentStateRequest())).workers
    pids = {one.pid for one in workers} | {pid}  # some may be forked ahead by now
    assert worker in pids
    launcher.process.kill()
    await rig.poll(lambda: not any(map(alive, pids)), 2.0)
    await launcher.process.wait()


async def test_a_wrong_order_is_answered_and_a_wrong_option_ends_its_agent(rig):
    launcher = await Launcher().start()
    assert "error" in await launcher.order(id=1)
    answer = await launcher.order(id=2, argv=["--gcs-address", "nowhere"])
    assert await launcher.answer() == {"exited": answer["pid"], "status": 2}
    assert await launcher.close() == 0


async def test_agents_that_were_just_forked_end_when_they_are_told_to(rig):
    await serve_only(rig)
    for _ in range(3):
        launcher = await Launcher().start()
        forked = {
            (await launcher.order(id=number, argv=rig.flags(), log=str(rig.folder / "log")))["pid"]
            for number in range(5)
        }
        launcher.process.stdin.close()
        ended = {(await launcher.answer())["exited"] for _ in forked}
        # One that had to be killed is not told of.
        assert ended == forked
        assert await launcher.close() == 0
