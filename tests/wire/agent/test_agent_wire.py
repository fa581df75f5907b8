from __future__ import annotations

import asyncio
import os
import signal

import grpc

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_common.resources import vector
from raylet_agent import exit_codes
from tests.wire.agent.agent_rig import JOB, OWNER, alive


async def test_leases_are_granted_reused_and_counted(rig):
    await rig.start()
    owner = await rig.owner()
    first = await owner.ask(1)
    grant = await owner.next("grant")
    assert grant.lease_id == first
    assert alive(grant.pid)
    await owner.give_back(first)
    await owner.ask(2)
    assert (await owner.next("grant")).worker_id == grant.worker_id
    checked = await owner.stub.CheckLedger(a.CheckLedgerRequest())
    assert checked.ok
    assert checked.available.amounts["CPU"] == 10_000
    await rig.gcs.until("snapshot", lambda s: s.available.amounts["CPU"] == 10_000)


async def test_a_crash_is_told_with_its_status(rig):
    await rig.start()
    owner = await rig.owner()
    lease = await owner.ask(1, name="crash")
    await owner.next("grant")
    ended = await owner.next("worker_ended")
    assert (ended.lease_id, ended.cause, ended.exit_code) == (
        lease,
        a.WORKER_END_CAUSE_CRASHED,
        9,
    )


async def test_a_worker_that_cannot_start_says_why(rig):
    await rig.start()
    owner = await rig.owner()
    await owner.ask(1, runtime_env_json='{"env_vars": {"FAKE_DIES": "1"}}')
    failed = await owner.next("failed")
    assert failed.reason == a.LEASE_FAILURE_WORKER_START_FAILED
    assert "no such library" in failed.message


async def test_output_reaches_the_driver_and_the_log_files(rig):
    await rig.start()
    owner = await rig.owner()
    await owner.ask(1, name="square")
    grant = await owner.next("grant")
    line = await asyncio.wait_for(rig.driver.lines.get(), 10)
    assert line == ("square", False, "begin square")
    log = rig.folder / "session" / "logs" / f"worker-{grant.worker_id.hex()}.out"
    assert "begin square" in log.read_text()


async def test_nothing_is_left_after_an_orderly_stop(rig):
    await rig.start("--prestart", "2")
    owner = await rig.owner()
    await owner.ask(1)
    await owner.next("grant")
    pids = [row.pid for row in (await owner.state()).workers]
    rig.process.send_signal(signal.SIGINT)
    assert await rig.ended() == exit_codes.OK
    assert not any(alive(pid) for pid in pids)
    assert not rig.port_file.exists()
    goodbye = await rig.gcs.until("goodbye")
    assert goodbye.cause == t.NODE_DEATH_CAUSE_EXPECTED


async def test_a_killed_agent_takes_workers_and_their_children_with_it(rig):
    await rig.start()
    owner = await rig.owner()
    pids = []
    for number, kind in enumerate(("same", "new")):
        text = f'{{"env_vars": {{"FAKE_CHILD": "{kind}"}}}}'
        await owner.ask(number, runtime_env_json=text)
        pids.append((await owner.next("grant")).pid)
        line = ("", False, "")
        while not line[2].startswith("child"):
            log = next((rig.folder / "session" / "logs").glob("*.out"), None)
            assert log is not None
            lines = [
                row
                for path in (rig.folder / "session" / "logs").glob("*.out")
                for row in path.read_text().splitlines()
            ]
            line = ("", False, next((row for row in lines if row.startswith("child")), ""))
        pids += [int(row.split()[1]) for row in lines if row.startswith("child")]
    assert all(alive(pid) for pid in pids)
    rig.process.kill()
    await rig.ended()
    await rig.poll(lambda: not any(alive(pid) for pid in pids), 1.0)


async def test_a_killed_worker_takes_its_children_with_it(rig):
    await rig.start()
    owner = await rig.owner()
    for number, kind in enumerate(("same", "new")):
        await owner.ask(number, runtime_env_json=f'{{"env_vars": {{"FAKE_CHILD": "{kind}"}}}}')
        grant = await owner.next("grant")
        log = rig.folder / "session" / "logs" / f"worker-{grant.worker_id.hex()}.out"
        await rig.poll(lambda log=log: log.exists() and "child" in log.read_text())
        child = int(log.read_text().split()[1])
        assert alive(child)
        os.kill(grant.pid, signal.SIGKILL)
        assert (await owner.next("worker_ended")).exit_code == -signal.SIGKILL
        await rig.poll(lambda child=child: not alive(child), 1.0)


async def test_the_agent_ends_with_its_parent(rig):
    read, write = os.pipe()
    await rig.start("--die-with-parent-fd", str(read), pass_fds=(read,))
    os.close(read)
    os.close(write)
    assert await rig.ended() == exit_codes.OK


async def test_a_refused_node_ends_with_its_code(rig):
    rig.gcs.refusal = n.Refused(reason="declared_dead", message="it was away for too long")
    await rig.start(wait=False)
    assert await rig.ended() == exit_codes.REFUSED
    assert b"declared_dead" in (rig.folder / "agent.log").read_bytes()


async def test_an_unreachable_gcs_ends_it_after_its_time(rig):
    await rig.start("--set", "gcs_reconnect_timeout_s=0.2")
    rig.gcs_address = ""
    await rig._servers[0].stop(None)
    assert await rig.ended() == exit_codes.GCS_UNREACHABLE


async def test_a_broken_session_is_resumed_with_what_is_held(rig):
    await rig.start()
    bundle = n.Bundle(index=1, resources=t.ResourceSet(amounts=vector({"CPU": 1})))
    await rig.gcs.send(
        bundle=n.BundleCommand(
            action=n.BUNDLE_ACTION_PREPARE_AND_COMMIT,
            placement_group_id=b"g" * 24,
            attempt=3,
            bundles=[bundle],
            reservation_seq=1,
        )
    )
    assert (await rig.gcs.until("bundle_answer")).ok
    await rig.gcs.until("snapshot", lambda s: s.applied_reservations == 1)
    owner = await rig.owner()
    rig.gcs.drop()
    again = await asyncio.wait_for(rig.gcs.registrations.get(), 10)
    assert (again.incarnation, again.cluster_id) == (2, b"c" * 16)
    assert [(b.index, b.attempt, b.committed) for b in again.bundles] == [(1, 3, True)]
    assert list(again.owner_ids) == [OWNER]
    assert again.snapshot.applied_reservations == 0
    await owner.ask(1)
    await owner.next("grant")


async def test_a_driver_that_goes_takes_its_workers_with_it(rig):
    await rig.start()
    owner = await rig.owner()
    await owner.ask(1, actor_id=OWNER + bytes(8))
    pid = (await owner.next("grant")).pid
    await owner.close()
    ended = await rig.gcs.until("owner_ended")
    assert (ended.owner_id, ended.is_driver) == (OWNER, True)
    await rig.poll(lambda: not alive(pid))


async def test_detached_actors_are_created_and_killed_for_the_gcs(rig):
    await rig.start()
    actor = OWNER + bytes(8)
    await rig.gcs.send(
        start_detached_actor=n.StartDetachedActor(
            actor_id=actor, incarnation=1, job_id=JOB, name="store", bundle_index=-1
        )
    )
    started = await rig.gcs.until("detached_actor")
    assert started.kind == n.DETACHED_ACTOR_EVENT_KIND_STARTED
    assert alive(started.pid)
    await rig.gcs.send(kill_detached_actor=n.KillDetachedActor(actor_id=actor, incarnation=1))
    ended = await rig.gcs.until("detached_actor")
    assert (ended.kind, ended.intended) == (n.DETACHED_ACTOR_EVENT_KIND_ENDED, True)
    await rig.poll(lambda: not alive(started.pid))


async def test_pings_are_answered(rig):
    await rig.start()
    await rig.gcs.send(ping=n.Ping(nonce=7))
    assert (await rig.gcs.until("ping_answer")).nonce == 7


async def test_an_owner_of_another_cluster_is_refused(rig):
    await rig.start()
    owner = await rig.owner()
    await owner.close()
    from tests.wire.agent.agent_rig import Owner

    stranger = Owner(rig.address, b"s" * 16)
    rig._owners.append(stranger)
    await stranger.send(open=a.OpenOwner(owner_id=b"s" * 16, cluster_id=b"x" * 16))
    assert (await stranger.next("refused")).reason == "other_cluster"


async def test_shutdown_over_grpc_ends_the_agent(rig):
    await rig.start()
    owner = await rig.owner()
    await owner.stub.Shutdown(a.ShutdownRequest(reason="test"))
    assert await rig.ended() == exit_codes.OK


async def test_many_workers_start_at_once(rig):
    await rig.start()
    owner = await rig.owner()
    for number in range(20):
        await owner.ask(number, cpus=0, actor_id=OWNER + number.to_bytes(8, "big"))
    grants = [await owner.next("grant") for _ in range(20)]
    assert len({grant.pid for grant in grants}) == 20


async def test_a_second_session_of_an_owner_replaces_the_first(rig):
    await rig.start()
    first = await rig.owner()
    lease = await first.ask(1)
    await first.next("grant")
    second = await rig.owner(held_lease_ids=[lease])
    code = await asyncio.wait_for(first._call.code(), 10)
    assert code == grpc.StatusCode.ABORTED
    await second.ask(2)
    await second.next("grant")
    assert len([row for row in (await second.state()).workers if row.state == "leased"]) == 2
