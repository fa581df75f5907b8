"""Node sessions over real gRPC: joining, dying, resuming, being told."""

from __future__ import annotations

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from tests.wire.gcs.gcs_rig import DRIVER, ScriptedAgent, until


async def test_a_node_joins_and_is_listed_with_its_newest_numbers(gcs):
    agent = await gcs.agent(1, labels={"rack": "r1"})
    agent.total.amounts["CPU"] = 80_000
    await agent.say(snapshot=agent.snapshot())

    async def listed():
        node = (await gcs.nodes.GetAllNodes(g.GetAllNodesRequest())).nodes[0]
        return node if node.available.amounts["CPU"] == 80_000 else None

    node = await until(listed, "the snapshot is listed")
    assert node.labels["rack"] == "r1"


async def test_a_process_that_is_gone_is_dead_long_before_the_window_ends(gcs):
    agent = await gcs.agent(1, listens=False)
    await agent.break_session()

    async def dead():
        return not await gcs.alive(agent.node_id)

    await until(dead, "the node is dead")
    node = (await gcs.nodes.GetAllNodes(g.GetAllNodesRequest())).nodes[0]
    assert "refuses connections" in node.death_message


async def test_a_node_that_resumes_was_never_dead(gcs):
    agent = await gcs.agent(1)
    await agent.break_session()
    first = await agent.connect()
    assert first.WhichOneof("item") == "welcome"
    assert await gcs.alive(agent.node_id)
    listed = await gcs.nodes.GetAllNodes(g.GetAllNodesRequest())
    assert [node.state for node in listed.nodes] == [t.NODE_STATE_ALIVE]


async def test_agents_of_another_cluster_are_refused_in_one_line(gcs):
    agent = ScriptedAgent(gcs, b"x" * 16)
    agent.cluster_id = b"o" * 16
    gcs.agents.append(agent)
    first = await agent.connect()
    assert first.refused.reason == "other_cluster"
    assert (await gcs.nodes.GetAllNodes(g.GetAllNodesRequest())).total == 0


async def test_views_of_other_nodes_reach_scheduler_agents_only(gcs):
    scheduler = await gcs.agent(1, is_scheduler=True)
    plain = await gcs.agent(2)
    await plain.say(snapshot=plain.snapshot())
    await until(
        lambda: any(view.snapshot.version == plain.version for view in scheduler.items("view")),
        "the view arrived",
    )
    assert {view.node_id for view in scheduler.items("view")} == {plain.node_id}
    assert plain.items("view") == []


async def test_changes_reach_agents_and_watchers_and_a_watch_resumes(gcs):
    first = await gcs.agent(1, is_scheduler=True)
    watch = gcs.nodes.WatchNodes(g.WatchNodesRequest())
    snapshot = await watch.read()
    assert (snapshot.snapshot, len(snapshot.nodes)) == (True, 1)
    second = await gcs.agent(2)
    joined = await watch.read()
    assert joined.nodes[0].node_id == second.node_id
    await second.say(goodbye=ns.Goodbye(message="bye"))
    died = await watch.read()
    assert (died.nodes[0].state, died.nodes[0].death_message) == (t.NODE_STATE_DEAD, "bye")
    watch.cancel()
    resumed = gcs.nodes.WatchNodes(g.WatchNodesRequest(from_revision=joined.revision))
    missed = await resumed.read()
    assert (missed.snapshot, [n.node_id for n in missed.nodes]) == (False, [second.node_id])
    resumed.cancel()
    await until(
        lambda: any(c.node.state == t.NODE_STATE_DEAD for c in first.items("node_change")),
        "the other agent heard of the death",
    )


async def test_the_end_of_an_owner_reaches_every_agent(gcs):
    agents = [await gcs.agent(number) for number in (1, 2, 3)]
    await gcs.jobs.AddJob(g.AddJobRequest(job=g.JobRecord(driver_id=DRIVER)))
    await agents[0].say(owner_ended=ns.OwnerEnded(owner_id=DRIVER, is_driver=True))
    for agent in agents:
        await until(
            lambda agent=agent: (
                [list(d.owner_ids) for d in agent.items("owners_died")] == [[DRIVER]]
            ),
            "the owner's end arrived once",
        )
    jobs = (await gcs.jobs.GetAllJobs(g.GetAllJobsRequest())).jobs
    assert jobs[0].is_dead


async def test_a_drain_reaches_the_agent_and_survives_a_restart(gcs):
    agent = await gcs.agent(1)
    request = g.DrainNodeRequest(
        node_id=agent.node_id, reason=ns.DRAIN_REASON_PREEMPTION, message="spot"
    )
    assert (await gcs.nodes.DrainNode(request)).accepted
    await until(lambda: agent.items("drain"), "the agent was told")
    await agent.break_session()
    await gcs.restart()
    await agent.connect()
    node = (await gcs.nodes.GetAllNodes(g.GetAllNodesRequest())).nodes[0]
    assert node.state == t.NODE_STATE_DRAINING


async def test_a_stopping_service_ends_its_sessions_in_order(gcs):
    agent = await gcs.agent(1)
    await gcs.stop()
    await until(agent.call.done, "the session ended")
