"""Placement groups over real gRPC: two phases, watches, removal, restarts in the middle."""

from __future__ import annotations

import grpc
import pytest

from cluster_api.v1 import placement_groups_pb2 as pg
from tests.wire.gcs.gcs_rig import group_id, spec, until

PENDING = pg.PLACEMENT_GROUP_STATE_PENDING
CREATED = pg.PLACEMENT_GROUP_STATE_CREATED
REMOVED = pg.PLACEMENT_GROUP_STATE_REMOVED
SPREAD = pg.PLACEMENT_STRATEGY_STRICT_SPREAD


async def test_a_group_is_accepted_placed_and_removed(gcs):
    agents = [await gcs.agent(number) for number in (1, 2, 3)]
    session = gcs.group_session()
    await session.ask(create=spec(1, 3, strategy=SPREAD))
    record = await session.state(group_id(1), CREATED)
    assert session.accepted == [group_id(1)]
    assert set(record.bundle_nodes) == {agent.node_id for agent in agents}
    await session.ask(remove=group_id(1))
    await session.state(group_id(1), REMOVED)
    assert session.removed == [group_id(1)]
    await until(lambda: not any(agent.bundles for agent in agents), "all bundles are back")


async def test_a_watch_may_overtake_the_create(gcs):
    await gcs.agent(1)
    watcher, creator = gcs.group_session(), gcs.group_session()
    await watcher.ask(watch=group_id(1))
    await until(lambda: watcher.unknown == [group_id(1)], "the watch was answered")
    await creator.ask(create=spec(1))
    await watcher.state(group_id(1), CREATED)


async def test_a_group_that_waits_is_placed_when_a_node_joins(gcs):
    session = gcs.group_session()
    await session.ask(create=spec(1, cpus=8))
    await session.state(group_id(1), PENDING)
    await gcs.agent(1, cpus=8)
    await session.state(group_id(1), CREATED)


async def test_many_groups_at_once_share_the_room_exactly(gcs):
    agents = [await gcs.agent(number, cpus=5) for number in (1, 2, 3, 4)]
    session = gcs.group_session()
    for number in range(20):
        await session.ask(create=spec(number))
    for number in range(20):
        await session.state(group_id(number), CREATED)
    assert [len(agent.bundles) for agent in agents] == [5, 5, 5, 5]


async def test_a_removed_group_answers_every_watcher(gcs):
    sessions = [gcs.group_session() for _ in range(3)]
    for session in sessions:
        await session.ask(watch=group_id(1))
    await sessions[0].ask(create=spec(1))
    await sessions[0].state(group_id(1), PENDING)
    await sessions[2].ask(remove=group_id(1))
    for session in sessions:
        await session.state(group_id(1), REMOVED)


async def test_wait_ready_answers_at_the_placement_and_at_its_deadline(gcs):
    session = gcs.group_session()
    await session.ask(create=spec(1))
    await session.state(group_id(1), PENDING)
    late = await gcs.groups.WaitReady(
        pg.WaitReadyRequest(placement_group_id=group_id(1), timeout_ms=20)
    )
    assert (late.ready, late.group.state) == (False, PENDING)
    waiting = gcs.groups.WaitReady(
        pg.WaitReadyRequest(placement_group_id=group_id(1), timeout_ms=9_000)
    )
    await gcs.agent(1)
    assert (await waiting).ready


async def test_lists_names_and_reasons(gcs):
    await gcs.agent(1, cpus=1)
    session = gcs.group_session()
    await session.ask(create=spec(1, cpus=9, name="big", namespace="s"))
    await session.state(group_id(1), PENDING)
    found = await gcs.groups.GetGroup(pg.GetGroupRequest(name="big", namespace="s"))
    assert found.group.spec.placement_group_id == group_id(1)
    listed = await gcs.groups.GetAllGroups(pg.GetAllGroupsRequest())
    assert listed.total == 1
    why = await gcs.groups.Explain(pg.ExplainRequest(placement_group_id=group_id(1)))
    assert why.reason == "infeasible"
    assert dict(why.bundles[0].rejected) == {"shape_too_large": 1}
    fits = await gcs.groups.WouldFit(pg.WouldFitRequest(spec=spec(2)))
    assert fits.fits
    nobody = await gcs.groups.Explain(pg.ExplainRequest(placement_group_id=group_id(9)))
    assert not nobody.found


async def test_a_lost_node_is_replaced_when_a_spare_joins(gcs):
    agents = [await gcs.agent(number, cpus=1, listens=number != 2) for number in (1, 2)]
    session = gcs.group_session()
    await session.ask(create=spec(1, 2, strategy=SPREAD))
    await session.state(group_id(1), CREATED)
    await agents[1].break_session()
    await session.state(group_id(1), pg.PLACEMENT_GROUP_STATE_RESCHEDULING)
    spare = await gcs.agent(3, cpus=1)
    record = await session.state(group_id(1), CREATED)
    assert set(record.bundle_nodes) == {agents[0].node_id, spare.node_id}


@pytest.mark.parametrize("silent", [False, True], ids=["created", "preparing"])
async def test_a_group_outlives_a_restart_of_the_service(gcs, silent):
    agents = [await gcs.agent(number) for number in (1, 2)]
    for agent in agents:
        agent.answers_bundles = not silent
    session = gcs.group_session()
    await session.ask(create=spec(1, 2, strategy=SPREAD))
    wanted = PENDING if silent else CREATED
    before = await session.state(group_id(1), wanted)
    for agent in agents:
        await agent.break_session()
        agent.answers_bundles = True
    await gcs.restart()
    session = gcs.group_session()
    await session.ask(watch=group_id(1))
    for agent in agents:
        await agent.connect()
    after = await session.state(group_id(1), CREATED)
    if not silent:
        assert list(after.bundle_nodes) == list(before.bundle_nodes)
    await until(
        lambda: (
            [[held.committed for held, _ in a.bundles.values()] for a in agents] == [[True], [True]]
        ),
        "both agents hold one committed bundle",
    )


async def test_bundles_that_nobody_knows_are_given_back(gcs):
    agent = await gcs.agent(1)
    session = gcs.group_session()
    await session.ask(create=spec(1))
    await session.state(group_id(1), CREATED)
    held = dict(agent.bundles)
    await session.ask(remove=group_id(1))
    await until(lambda: not agent.bundles, "the bundle is back")
    await agent.break_session()
    agent.bundles = held
    await agent.connect()
    await until(lambda: not agent.bundles, "the stale bundle is back")


async def test_a_process_of_another_cluster_is_refused(gcs):
    session = gcs.group_session()
    await session.ask(hello=pg.GroupHello(cluster_id=b"o" * 16))
    assert await session.call.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "this is cluster" in await session.call.details()
