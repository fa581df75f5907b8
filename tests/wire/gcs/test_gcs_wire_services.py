"""Each service over real gRPC: answers, refusals, durability, counters."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from tests.wire.gcs.gcs_rig import DRIVER, group_id, spec, until


async def test_health_and_reflection_answer(gcs):
    health = health_pb2_grpc.HealthStub(gcs.channel)
    for service in ("", "cluster_api.v1.KvService"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    call = reflection_pb2_grpc.ServerReflectionStub(gcs.channel).ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    listed = {one.name for one in (await call.read()).list_services_response.service}
    assert {"cluster_api.v1.NodeService", "cluster_api.v1.PlacementGroupService"} <= listed
    call.cancel()


async def test_cluster_id_is_kept_and_the_epoch_counts_lives(gcs):
    first = await gcs.nodes.GetClusterInfo(g.GetClusterInfoRequest())
    await gcs.restart()
    second = await gcs.nodes.GetClusterInfo(g.GetClusterInfoRequest())
    assert (second.cluster_id, second.session_name) == (first.cluster_id, first.session_name)
    assert (first.epoch, second.epoch) == (1, 2)


async def test_of_twenty_clients_that_race_for_a_key_one_wins_and_knows_it(gcs):
    puts = [
        gcs.kv.Put(g.KvPutRequest(namespace="n", key=b"k", value=b"%d" % i, if_absent=True))
        for i in range(20)
    ]
    answers = await asyncio.gather(*puts)
    winners = [number for number, answer in enumerate(answers) if answer.written]
    stored = await gcs.kv.Get(g.KvGetRequest(namespace="n", key=b"k"))
    assert [b"%d" % number for number in winners] == [stored.value]


async def test_acknowledged_keys_survive_a_restart(gcs):
    await asyncio.gather(
        *(gcs.kv.Put(g.KvPutRequest(key=b"k%03d" % i, value=b"v%d" % i)) for i in range(200))
    )
    await gcs.kv.Delete(g.KvDeleteRequest(key=b"k1", prefix=True))
    await gcs.restart()
    keys = await gcs.kv.Keys(g.KvKeysRequest(prefix=b"k"))
    assert len(keys.keys) == 100
    asked = g.KvMultiGetRequest(keys=[b"k000", b"k150", b"k099"])
    entries = (await gcs.kv.MultiGet(asked)).entries
    assert [(e.key, e.value) for e in entries] == [(b"k000", b"v0"), (b"k099", b"v99")]
    assert not (await gcs.kv.Exists(g.KvExistsRequest(key=b"k150"))).exists


async def test_a_refusal_is_a_status_with_a_sentence(gcs):
    await gcs.stop()
    await gcs.start(kv_quota_bytes=10)
    with pytest.raises(grpc.RpcError) as caught:
        await gcs.kv.Put(g.KvPutRequest(namespace="small", key=b"k", value=b"x" * 20))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "'small'" in caught.value.details()


async def test_jobs_are_numbered_and_finish(gcs):
    added = await gcs.jobs.AddJob(g.AddJobRequest(job=g.JobRecord(driver_id=DRIVER)))
    again = await gcs.jobs.AddJob(g.AddJobRequest(job=g.JobRecord(driver_id=DRIVER)))
    assert added.job_id == again.job_id == b"\0\0\0\1"
    await gcs.jobs.FinishJob(g.FinishJobRequest(job_id=added.job_id))
    rows = (await gcs.jobs.GetAllJobs(g.GetAllJobsRequest())).jobs
    assert [job.is_dead for job in rows] == [True]
    with pytest.raises(grpc.RpcError, match="there is no job"):
        await gcs.jobs.FinishJob(g.FinishJobRequest(job_id=b"nope"))


async def test_of_racing_names_one_is_created_and_the_others_learn_the_holder(gcs):
    def register(number):
        actor = t.ActorRecord(
            actor_id=group_id(number), owner_id=DRIVER, name="n", version=1, handle=b"h"
        )
        return gcs.actors.RegisterNamedActor(g.RegisterNamedActorRequest(actor=actor))

    answers = await asyncio.gather(*(register(number) for number in range(10)))
    holder = (await gcs.actors.GetNamedActor(g.GetNamedActorRequest(name="n"))).actor
    assert sum(answer.created for answer in answers) == 1
    assert {a.existing.actor_id for a in answers if not a.created} == {holder.actor_id}


async def test_a_detached_actor_is_created_found_by_name_killed_and_its_name_free(gcs):
    await gcs.agent(1)
    actor = t.ActorRecord(actor_id=group_id(1), owner_id=DRIVER, name="n", namespace="s")
    start = ns.StartDetachedActor(resources=t.ResourceSet(amounts={"CPU": 10_000}))
    watch = gcs.actors.WatchActors()
    await watch.write(g.WatchActorsRequest(actor_ids=[group_id(1)]))
    request = g.CreateDetachedActorRequest(actor=actor, start=start)
    assert (await gcs.actors.CreateDetachedActor(request)).created
    state = t.ACTOR_STATE_UNSPECIFIED
    while state != t.ACTOR_STATE_ALIVE:
        state = (await watch.read()).actors[-1].state
    asked = g.GetNamedActorRequest(name="n", namespace="s")
    assert (await gcs.actors.GetNamedActor(asked)).actor.worker_address == "127.0.0.1:1"
    killed = await gcs.actors.KillActor(
        g.GcsKillActorRequest(actor_id=group_id(1), no_restart=True)
    )
    assert killed.found
    assert not (await gcs.actors.GetNamedActor(asked)).found
    assert (await watch.read()).actors[-1].death.cause == t.ACTOR_DEATH_CAUSE_KILLED
    watch.cancel()


async def test_every_unary_call_is_counted_by_name(gcs):
    for _ in range(3):
        await gcs.kv.Exists(g.KvExistsRequest(key=b"k"))
    counters = await gcs.counters()
    assert counters["rpc.Exists"] == 3
    assert "rpc.RegisterNamedActor" not in counters


async def test_status_shows_executors_tables_and_sums(gcs):
    agent = await gcs.agent(1, cpus=4)
    report = ns.DemandReport(
        version=1,
        entries=[ns.DemandEntry(resources=t.ResourceSet(amounts={"GPU": 10_000}), count=3)],
    )
    await agent.say(demand=report)

    async def seen():
        status = await gcs.status.GetClusterStatus(g.GetStatusRequest(verbose=True))
        return status if status.demand else None

    status = await until(seen, "demand is in the status")
    assert (status.nodes_alive, status.storage) == (1, "sqlite")
    names = [executor.name for executor in status.executors]
    assert names == ["core", "node_broadcast", "kv", "autoscaler", "storage", "io_loop"]
    assert status.total.amounts["CPU"] == status.available.amounts["CPU"] == 40_000
    assert status.demand[0].count == 3
    assert {"node", "kv", "actor", "placement_group"} <= {table.name for table in status.tables}
    answer = await gcs.autoscaler.GetClusterResourceState(auto.GetClusterResourceStateRequest())
    state = answer.cluster_resource_state
    assert [r.count for r in state.pending_resource_requests] == [3]
    assert len(state.node_states) == 1


@pytest.mark.parametrize("reason", [0, 9])
async def test_a_drain_names_the_allowed_reasons(gcs, reason):
    with pytest.raises(grpc.RpcError, match="DRAIN_REASON_PREEMPTION"):
        await gcs.nodes.DrainNode(g.DrainNodeRequest(node_id=b"n" * 16, reason=reason))


async def test_random_bytes_at_the_port_do_not_disturb_anyone(gcs):
    for blob in (b"\0" * 64, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 40):
        _reader, writer = await asyncio.open_connection("127.0.0.1", gcs.port)
        writer.write(blob)
        await writer.drain()
        writer.close()
    broken = gcs.channel.stream_stream("/cluster_api.v1.NodeSessionService/Connect")()
    await broken.write(b"\xff\xff\xff\xff")
    assert await broken.code() != grpc.StatusCode.OK
    assert (await gcs.nodes.GetAllNodes(g.GetAllNodesRequest())).total == 0


async def test_streams_beyond_the_limit_are_refused_with_a_sentence(gcs, monkeypatch):
    await gcs.agent(1)
    monkeypatch.setattr(limits, "SESSIONS_MAX", 1)
    session = gcs.group_session()
    assert await session.call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "streams are open" in await session.call.details()


async def test_a_stream_that_floods_is_read_more_slowly_and_loses_nothing(gcs, monkeypatch):
    monkeypatch.setattr(limits, "EXECUTOR_QUEUE_ITEMS_MAX", 0)
    await gcs.agent(1, cpus=200)
    session = gcs.group_session()
    for number in range(200):
        await session.ask(create=spec(number))
    await until(lambda: len(session.accepted) == 200, "all creates are accepted")
