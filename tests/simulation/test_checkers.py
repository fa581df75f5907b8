"""Each checker sees what it is for: a world at rest is broken on purpose in one place."""

import pytest

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_simulator import scenarios
from cluster_simulator.checkers.agent_ledgers import AgentLedgers
from cluster_simulator.checkers.bounded_queues import BoundedQueues
from cluster_simulator.checkers.group_atomicity import GroupAtomicity
from cluster_simulator.checkers.ledger_adds_up import LedgerAddsUp
from cluster_simulator.checkers.names_unique import NamesUnique
from cluster_simulator.checkers.no_starvation import NoStarvation
from cluster_simulator.checkers.nothing_leaks import NothingLeaks
from cluster_simulator.checkers.views_converge import ViewsConverge
from cluster_simulator.failure import InvariantError
from cluster_simulator.owner import detached
from cluster_simulator.run import Run, RunOptions

CREATED = pg.PLACEMENT_GROUP_STATE_CREATED


@pytest.fixture
def world():
    run = Run(scenarios.BY_NAME["racks"], 1, 18, RunOptions(), recording=False)
    run.join()
    run.busy()
    run.calm()
    return run.world


def placed(world):
    """A gang, one of its bundles, and the agent that holds it."""
    gang = next(gang for gang in world.gangs() if gang.state == CREATED)
    agent = world.nodes[gang.record.bundle_nodes[0]]
    return gang, agent.core.ledger.bundles.of_group(gang.group_id)[0], agent


def broken(checker, moment):
    with pytest.raises(InvariantError) as caught:
        getattr(checker, moment)()
    assert caught.value.about or "sessions" in str(caught.value)
    return str(caught.value)


def test_books_that_do_not_add_up(world):
    agent = world.agents[0]
    agent.core.ledger.node.available["CPU"] = agent.core.ledger.node.available.get("CPU", 0) + 1
    assert "agent0" in broken(AgentLedgers(world), "during")


def test_a_bundle_that_is_not_committed(world):
    _, bundle, _ = placed(world)
    bundle.committed = False
    assert "has not committed it" in broken(GroupAtomicity(world), "during")


def test_a_bundle_that_nobody_holds(world):
    gang, _, agent = placed(world)
    del agent.core.ledger.bundles._bundles[gang.group_id]
    assert "does not hold it" in broken(GroupAtomicity(world), "during")
    assert "agents hold nothing" in broken(GroupAtomicity(world), "at_rest")


def test_a_gcs_that_believes_in_too_much_room(world):
    _, _, agent = placed(world)
    node = world.gcs.core.placement._state.nodes[agent.node_id]
    node.room_class = node.total_class
    assert "the GCS believes" in broken(LedgerAddsUp(world), "at_rest")


def test_leases_of_owners_that_are_gone(world):
    assert "leases of owners that ended" in broken(NothingLeaks(world), "after_all_left")
    gang = world.gangs()[0]
    gang.owner.leases.leases.clear()
    assert "a lease that nobody owns" in broken(NothingLeaks(world), "at_rest")


def test_an_actor_that_runs_twice(world):
    workers = [worker for worker in world.workers.values() if worker.actor is not None]
    workers[0].actor = workers[1].actor
    assert "runs twice" in broken(NamesUnique(world), "during")


def test_a_detached_actor_that_the_gcs_does_not_know_of(world):
    owner = next(iter(world.owners.values()))
    actor_id = detached.create(owner, "x", cpus=0)
    world.heap.run_until(world.heap.now_us + 1_000_000, None, 1)
    NamesUnique(world).at_rest()
    record = world.gcs.core.actors.get(actor_id)
    assert record.state == t.ACTOR_STATE_ALIVE
    worker = next(w for w in world.workers.values() if w.actor and w.actor[0] == actor_id)
    worker.actor = None
    assert "is ACTOR_STATE_ALIVE" in broken(NamesUnique(world), "at_rest")


def test_a_scheduler_that_sees_room_where_there_is_none(world):
    other = world.agents[1]
    world.agents[0].core.views.get(other.node_id).available["CPU"] = 123
    assert "sees" in broken(ViewsConverge(world), "at_rest")


def test_an_agent_that_knows_no_scheduler(world):
    world.agents[3].core.facts.scheduler_address = ""
    assert "agent3" in broken(ViewsConverge(world), "at_rest")


def test_an_actor_of_a_placed_group_that_does_not_run(world):
    gang, _, _ = placed(world)
    gang.actors[0].life.state = t.ACTOR_STATE_RESTARTING
    assert "RESTARTING at rest" in broken(NoStarvation(world), "at_rest")


def test_sessions_that_nobody_has_any_more(world):
    link = next(iter(world.gcs.sessions.values()))
    world.gcs.sessions[-1] = world.gcs.sessions[-2] = link
    assert "node sessions" in broken(BoundedQueues(world), "at_rest")
