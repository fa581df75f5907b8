"""The contract of AutoscalerStateService over real gRPC (names as in Ray's autoscaler v2)."""

import asyncio

import grpc
import pytest

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from tests.wire.gcs.gcs_rig import group_id, spec, until


def amounts(**values):
    return t.ResourceSet(amounts={name: value * 10_000 for name, value in values.items()})


def constraint(count, **values):
    request = auto.ResourceRequest(resources_bundle=amounts(**values))
    row = auto.ResourceRequestByCount(request=request, count=count)
    return auto.RequestClusterResourceConstraintRequest(
        cluster_resource_constraint=auto.ClusterResourceConstraint(resource_requests=[row])
    )


async def state(gcs, seen=0, wait_ms=0):
    request = auto.GetClusterResourceStateRequest(
        last_seen_cluster_resource_state_version=seen, wait_ms=wait_ms
    )
    return (await gcs.autoscaler.GetClusterResourceState(request)).cluster_resource_state


async def test_demand_shows_shapes_nodes_and_a_version_that_grows(gcs):
    before = await state(gcs)
    agent = await gcs.agent(1, labels={"shoal.io/node-type": "small", "shoal.io/instance-id": "i"})
    entries = [
        ns.DemandEntry(resources=amounts(CPU=1), count=3),
        ns.DemandEntry(resources=amounts(GPU=1), count=2, infeasible=True),
    ]
    await agent.say(demand=ns.DemandReport(version=1, entries=entries))

    async def seen():
        answer = await state(gcs)
        return answer if answer.pending_resource_requests else None

    now = await until(seen, "the demand is told")
    rows = [(row.count, row.infeasible) for row in now.pending_resource_requests]
    assert sorted(rows) == [(2, True), (3, False)]
    (node,) = now.node_states
    assert (node.ray_node_type_name, node.instance_id) == ("small", "i")
    assert node.total_resources.amounts["CPU"] == 40_000
    assert now.cluster_resource_state_version > before.cluster_resource_state_version


async def test_a_group_is_pending_with_all_its_bundles_or_placed_never_both(gcs):
    await gcs.agent(1, cpus=1)
    session = gcs.group_session()
    await session.ask(create=spec(1, 2, strategy=pg.PLACEMENT_STRATEGY_STRICT_SPREAD))
    await session.state(group_id(1), pg.PLACEMENT_GROUP_STATE_PENDING)

    def gang_of(answer):
        return list(answer.pending_gang_resource_requests)

    async def pending():
        answer = await state(gcs)
        return answer if gang_of(answer) else None

    waiting = await until(pending, "the group is demand")
    (gang,) = gang_of(waiting)
    assert (len(gang.requests), gang.strategy) == (2, "STRICT_SPREAD")
    label = gang.requests[0].placement_constraints[0].anti_affinity.label_name
    assert label == f"_PG_{group_id(1).hex()}"
    assert waiting.node_states[0].available_resources.amounts["CPU"] == 10_000
    second = asyncio.ensure_future(gcs.agent(2, cpus=1))
    while True:
        answer = await state(gcs)
        free = sum(node.available_resources.amounts["CPU"] for node in answer.node_states)
        taken = len(answer.node_states) * 10_000 - free
        assert (len(gang_of(answer)), taken) in {(1, 0), (0, 20_000)}
        if taken:
            break
    await second
    await session.state(group_id(1), pg.PLACEMENT_GROUP_STATE_CREATED)


async def test_only_the_lost_bundles_of_a_group_are_demand_apart_from_the_others(gcs):
    kept, lost = await gcs.agent(1, cpus=1), await gcs.agent(2, cpus=1)
    session = gcs.group_session()
    await session.ask(create=spec(1, 2, strategy=pg.PLACEMENT_STRATEGY_STRICT_SPREAD))
    await session.state(group_id(1), pg.PLACEMENT_GROUP_STATE_CREATED)
    await lost.say(goodbye=ns.Goodbye(message="gone"))

    async def pending():
        answer = await state(gcs)
        return answer if answer.pending_gang_resource_requests else None

    answer = await until(pending, "the lost bundle is demand")
    (gang,) = answer.pending_gang_resource_requests
    assert len(gang.requests) == 1
    marked = {node.node_id for node in answer.node_states if node.dynamic_labels}
    assert marked == {kept.node_id}


async def test_a_question_with_patience_is_answered_when_something_changes(gcs):
    version = (await state(gcs)).cluster_resource_state_version
    waiting = asyncio.ensure_future(state(gcs, seen=version, wait_ms=20_000))
    quick = await state(gcs, seen=version, wait_ms=1)
    assert quick.cluster_resource_state_version == version
    assert not waiting.done()
    await gcs.agent(1)
    answer = await asyncio.wait_for(waiting, 10)
    assert answer.cluster_resource_state_version > version


async def test_a_constraint_is_a_floor_shown_apart_and_survives_a_restart(gcs):
    await gcs.autoscaler.RequestClusterResourceConstraint(constraint(7, CPU=2))
    for _ in range(2):
        now = await state(gcs)
        (floor,) = now.cluster_resource_constraints
        assert floor.resource_requests[0].count == 7
        assert len(now.pending_resource_requests) == 0
        await gcs.restart()
    empty = auto.RequestClusterResourceConstraintRequest()
    await gcs.autoscaler.RequestClusterResourceConstraint(empty)
    assert len((await state(gcs)).cluster_resource_constraints) == 0


async def test_versions_grow_over_a_restart(gcs):
    before = (await state(gcs)).cluster_resource_state_version
    await gcs.restart()
    assert (await state(gcs)).cluster_resource_state_version > before


@pytest.mark.parametrize("rows", [[auto.ResourceRequestByCount(count=1)]])
async def test_a_senseless_constraint_is_refused(gcs, rows):
    request = auto.RequestClusterResourceConstraintRequest(
        cluster_resource_constraint=auto.ClusterResourceConstraint(resource_requests=rows)
    )
    with pytest.raises(grpc.RpcError, match="needs resources"):
        await gcs.autoscaler.RequestClusterResourceConstraint(request)


async def test_what_the_autoscaler_says_shows_in_the_status_the_newest_wins(gcs):
    config = auto.ClusterConfig(
        node_group_configs=[auto.NodeGroupConfig(name="small", max_count=3)]
    )
    await gcs.autoscaler.ReportClusterConfig(auto.ReportClusterConfigRequest(cluster_config=config))

    async def report(version, **fields):
        said = auto.AutoscalingState(autoscaler_state_version=version, **fields)
        request = auto.ReportAutoscalingStateRequest(autoscaling_state=said)
        return (await gcs.autoscaler.ReportAutoscalingState(request)).kept

    pending = auto.PendingInstance(instance_id="i-1", ray_node_type_name="small")
    assert await report(2, pending_instances=[pending])
    assert not await report(1)
    status = await gcs.autoscaler.GetClusterStatus(auto.GetClusterStatusRequest())
    assert status.autoscaling_state.pending_instances[0].instance_id == "i-1"
    seen = status.cluster_resource_state.last_seen_autoscaler_state_version
    assert seen == 2
    await gcs.restart()
    status = await gcs.autoscaler.GetClusterStatus(auto.GetClusterStatusRequest())
    assert status.cluster_config.node_group_configs[0].name == "small"


async def test_drain_node_is_accepted_for_a_living_node_only(gcs):
    agent = await gcs.agent(1)
    request = g.DrainNodeRequest(node_id=agent.node_id, reason=ns.DRAIN_REASON_PREEMPTION)
    assert (await gcs.autoscaler.DrainNode(request)).accepted
    now = await state(gcs)
    assert now.node_states[0].status == auto.NODE_STATUS_DRAINING
    unknown = g.DrainNodeRequest(node_id=b"u" * 16, reason=ns.DRAIN_REASON_PREEMPTION)
    with pytest.raises(grpc.RpcError) as caught:
        await gcs.autoscaler.DrainNode(unknown)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
