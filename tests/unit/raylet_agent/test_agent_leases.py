from __future__ import annotations

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent import limits
from raylet_agent.core.runtime_env import environment_of
from tests.unit.raylet_agent.agent_world import HERE, JOB, OWNER, World, lease_id, request


def test_a_lease_is_granted_when_there_is_room(world):
    asked = world.ask(1)
    assert world.heard() == [("grant", asked)]
    assert world.free() == 3


def test_the_worker_hears_of_the_lease_before_the_owner_hears_of_the_worker(world):
    world.auto_register = False
    world.ask(1, name="square")
    world.register(world.spawned[0].worker_id)
    kinds = [type(effect).__name__ for effect in world.core.drain()]
    assert kinds == [
        "SendToWorker",  # welcome
        "SendToWorker",  # lease_begin
        "LabelOutput",
        "SendToOwner",  # grant
    ]


def test_a_repeated_request_is_answered_once_in_each_session(world):
    asked = world.ask(1)
    first = world.items("grant")[0]
    world.ask(1)
    assert world.items("grant") == []
    world.open(held=[asked])
    world.ask(1)
    assert world.items("grant") == [first]
    assert world.free() == 3


def test_a_returned_worker_serves_the_next_lease_of_its_job(world):
    first = world.ask(1)
    worker = world.items("grant")[0].worker_id
    world.give_back(first)
    world.ask(2)
    assert world.items("grant")[0].worker_id == worker
    assert len(world.spawned) == 1


def test_an_actors_worker_is_never_reused(world):
    first = world.ask(1, actor=True)
    worker = world.items("grant")[0].worker_id
    world.give_back(first)
    assert world.killed == [worker]
    assert world.free() == 4


def test_a_worker_of_one_job_does_not_serve_another(world):
    first = world.ask(1)
    world.give_back(first)
    other = request(2)
    other.job_id = b"\0\0\0\2"
    world.send(OWNER, a.OwnerItem(request=other))
    assert len(world.spawned) == 2


def test_requests_wait_for_room_in_order_when_no_scheduler_is_known(world):
    held = [world.ask(i, resources={"CPU": 2}) for i in range(2)]
    waiting = [world.ask(10 + i, resources={"CPU": 2}) for i in range(2)]
    assert world.heard() == [("grant", each) for each in held]
    world.give_back(held[0])
    assert world.heard() == [("grant", waiting[0])]
    world.give_back(held[1])
    assert world.heard() == [("grant", waiting[1])]


def test_a_large_request_at_the_head_does_not_block_small_ones(world):
    first = world.ask(1, resources={"CPU": 3})
    large = world.ask(2, resources={"CPU": 4})
    small = world.ask(3)
    assert world.heard() == [("grant", first), ("grant", small)]
    world.give_back(first, small)
    assert world.heard() == [("grant", large)]


def test_waiting_requests_ask_idle_leases_back(world):
    world.ask(1, resources={"CPU": 4})
    world.ask(2)
    assert len(world.items("give_back")) == 1


def test_an_actor_that_holds_nothing_still_needs_a_free_cpu_to_be_placed(world):
    taken = world.ask(1, resources={"CPU": 4})
    actor = world.ask(2, resources={}, place={"CPU": 1}, actor=True)
    assert world.heard() == [("grant", taken)]
    world.give_back(taken)
    assert world.heard() == [("grant", actor)]
    assert world.free() == 4


def test_a_cancelled_request_is_answered_and_its_room_is_free(world):
    world.ask(1, resources={"CPU": 4})
    second = world.ask(2)
    world.heard()
    world.cancel(second)
    assert world.items("failed")[0].reason == a.LEASE_FAILURE_CANCELLED


def test_a_cancel_that_overtakes_its_request_wins(world):
    world.cancel(lease_id(1))
    world.ask(1)
    assert world.items("failed")[0].reason == a.LEASE_FAILURE_CANCELLED
    assert world.free() == 4


def test_a_grant_that_crosses_its_cancel_is_taken_back(world):
    asked = world.ask(1)
    world.cancel(asked)
    assert world.free() == 4


def test_grant_or_reject_never_waits(world):
    world.ask(1, resources={"CPU": 4})
    world.heard()
    rejected = world.ask(2, grant_or_reject=True)
    reject = world.items("reject")[0]
    assert (reject.lease_id, reject.node_id) == (rejected, HERE)
    assert reject.snapshot.available.amounts["CPU"] == 0


def test_what_does_not_fit_goes_to_the_scheduler(world):
    world.core.welcomed(n.Welcome(cluster_id=b"c" * 16, scheduler_address="head:1"), 0)
    world.ask(1, resources={"CPU": 5})
    redirect = world.items("redirect")[0]
    assert (redirect.address, redirect.to_scheduler) == ("head:1", True)


def test_requests_that_waited_for_a_scheduler_go_there_when_it_is_known(world):
    asked = world.ask(1, resources={"CPU": 5})
    assert world.heard() == [("pending", asked)]
    world.gcs(node_change=n.NodeChange(scheduler_address="head:1"))
    assert ("redirect", asked) in world.heard()


def test_requests_wait_here_when_the_only_scheduler_died_and_go_to_the_next(world):
    world.core.welcomed(n.Welcome(cluster_id=b"c" * 16, scheduler_address="head:1"), 0)
    died = t.NodeRecord(node_id=b"h" * 28, address="head:1", state=t.NODE_STATE_DEAD)
    world.gcs(node_change=n.NodeChange(node=died))
    lost = world.ask(1, resources={"CPU": 5})
    assert ("redirect", lost) in world.heard()  # no word of who schedules is no news
    world.gcs(node_change=n.NodeChange(node=died, scheduler_lost=True))
    world.heard()
    waits = world.ask(2, resources={"CPU": 5})
    assert world.heard() == [("pending", waits)]
    world.gcs(node_change=n.NodeChange(scheduler_address="next:1"))
    assert ("redirect", waits) in world.heard()


def test_the_death_of_a_scheduler_is_no_news_of_its_successor_at_the_same_address(world):
    world.core.welcomed(n.Welcome(cluster_id=b"c" * 16, scheduler_address="head:1"), 0)
    after = t.NodeRecord(node_id=b"n" * 28, address="head:1", state=t.NODE_STATE_ALIVE)
    world.gcs(node_change=n.NodeChange(node=after, scheduler_address="head:1"))
    died = t.NodeRecord(node_id=b"h" * 28, address="head:1", state=t.NODE_STATE_DEAD)
    world.gcs(node_change=n.NodeChange(node=died, scheduler_lost=True))
    asked = world.ask(1, resources={"CPU": 5})
    assert ("redirect", asked) in world.heard()


def test_hard_affinity_to_a_node_that_is_too_small_fails_at_once(world):
    world.ask(1, resources={"CPU": 9}, affinity_node_id=HERE)
    assert world.items("failed")[0].reason == a.LEASE_FAILURE_UNSCHEDULABLE


def test_labels_must_match(world):
    matching = world.ask(1, selector={"rack": "in(r1,r2)"})
    assert world.heard() == [("grant", matching)]
    world.ask(2, selector={"rack": "!r1"})
    assert world.items("grant") == []


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ({"selector": {"rack": "in("}}, "rack"),
        ({"group": b"short"}, "placement_group_id"),
        ({"affinity_node_id": b"x"}, "affinity_node_id"),
    ],
)
def test_a_bad_request_names_its_field(world, field, text):
    world.ask(1, **field)
    failed = world.items("failed")[0]
    assert failed.reason == a.LEASE_FAILURE_BAD_REQUEST
    assert text in failed.message


def test_an_unknown_runtime_environment_names_the_allowed_keys(world):
    world.ask(1, runtime_env_json='{"conda": []}')
    failed = world.items("failed")[0]
    assert failed.reason == a.LEASE_FAILURE_RUNTIME_ENV_FAILED
    assert "conda" in failed.message
    assert "env_vars" in failed.message


def test_environment_variables_get_a_worker_of_their_own(world):
    first = world.ask(1)
    world.give_back(first)
    world.ask(2, runtime_env_json='{"env_vars": {"A": "1"}}')
    environments = [environment_of(spawn.environment) for spawn in world.spawned]
    assert [environment.variables for environment in environments] == [{}, {"A": "1"}]


def test_a_crashed_worker_is_reported_with_its_status(world):
    asked = world.ask(1)
    worker = world.items("grant")[0].worker_id
    world.ended(worker, -11)
    ended = world.items("worker_ended")[0]
    assert (ended.lease_id, ended.cause, ended.exit_code) == (
        asked,
        a.WORKER_END_CAUSE_CRASHED,
        -11,
    )
    assert world.free() == 4


def test_an_announced_end_is_no_crash(world):
    world.ask(1)
    worker = world.items("grant")[0].worker_id
    exiting = a.WorkerItem(exiting=a.WorkerExiting(intended=True, reason="exit_actor"))
    world.core.worker_items(worker, [exiting], world.now_ms)
    world.run()
    assert noted(world) == [worker]
    world.ended(worker, 0)
    assert world.items("worker_ended")[0].cause == a.WORKER_END_CAUSE_EXITED


def test_an_end_that_was_ordered_is_noted_too(world):
    """The worker waits for that word before it goes; its cause stays."""
    asked = world.ask(1, actor=True)
    worker = world.items("grant")[0].worker_id
    world.give_back(asked, kill_worker=True, graceful=True)
    exiting = a.WorkerItem(exiting=a.WorkerExiting(intended=True, reason="ordered"))
    world.core.worker_items(worker, [exiting], world.now_ms)
    world.run()
    assert noted(world) == [worker]


def noted(world):
    """Whom the agent told that it knows of their end."""
    return [who for who, command in world.worker_commands if command.HasField("exit_noted")]


def test_room_of_a_killed_worker_is_free_when_the_process_is_gone(world):
    world.auto_kill = False
    asked = world.ask(1)
    worker = world.items("grant")[0].worker_id
    world.give_back(asked, kill_worker=True)
    assert world.free() == 3
    world.ended(worker)
    assert world.free() == 4
    assert world.heard() == []


def test_a_graceful_kill_becomes_a_hard_one_after_its_grace(world):
    asked = world.ask(1, actor=True)
    worker = world.items("grant")[0].worker_id
    world.give_back(asked, kill_worker=True, graceful=True)
    assert world.killed == []
    world.advance(limits.WORKER_EXIT_GRACE_MS)
    assert world.killed == [worker]


def test_a_worker_that_cannot_start_fails_the_lease_after_three_tries(world):
    world.auto_register = False
    asked = world.ask(1)
    for attempt in range(limits.WORKER_START_TRIES_MAX):
        world.ended(world.spawned[attempt].worker_id, 7, "no such library")
    failed = world.items("failed")[0]
    assert (failed.lease_id, failed.reason) == (asked, a.LEASE_FAILURE_WORKER_START_FAILED)
    assert "no such library" in failed.message
    assert world.free() == 4


def test_a_worker_that_does_not_register_in_time_is_killed_and_tried_again(world):
    world.auto_register = False
    world.ask(1)
    world.advance(limits.WORKER_REGISTER_TIMEOUT_MS)
    assert world.killed == [world.spawned[0].worker_id]
    assert len(world.spawned) == 2


def test_the_cpu_of_a_blocked_worker_is_lent_and_owed(world):
    parent = world.ask(1, resources={"CPU": 4})
    worker = world.items("grant")[0].worker_id
    blocked = a.WorkerItem(blocked=a.WorkerBlocked(lease_id=parent))
    world.core.worker_items(worker, [blocked], world.now_ms)
    world.run()
    child = world.ask(2, resources={"CPU": 4})
    assert world.heard() == [("grant", child)]
    unblocked = a.WorkerItem(unblocked=a.WorkerUnblocked(lease_id=parent))
    world.core.worker_items(worker, [unblocked], world.now_ms)
    third = world.ask(3)
    world.give_back(child)
    assert world.free() == 0
    assert world.heard() == []
    world.give_back(parent)
    assert world.heard() == [("grant", third)]


def test_a_workers_end_ends_what_it_leased(world):
    """A worker that owns leases: its process is its life."""
    world.ask(1)
    parent = world.items("grant")[0].worker_id
    world.open(parent, driver=False)
    world.ask(1, parent)
    child = world.items("grant", parent)[0].worker_id
    world.ended(parent)
    assert world.killed == [child]


def test_workers_are_forked_ahead_in_quiet_times_after_the_first_use():
    world = World(ahead=2)
    world.open()
    world.advance(10_000)
    assert world.spawned == []
    world.ask(1)
    world.advance(limits.REFILL_QUIET_MS)
    assert len(world.spawned) == 3


def test_idle_workers_beyond_the_target_end_after_a_while(world):
    leases = [world.ask(i) for i in range(3)]
    world.give_back(*leases)
    world.advance(limits.WORKER_IDLE_LINGER_MS)
    exits = [command for _, command in world.worker_commands if command.HasField("exit")]
    assert len(exits) == 3
    assert JOB


def test_idle_workers_of_a_driver_that_died_end_with_it(world):
    lease = world.ask(1)
    worker = world.items("grant")[0].worker_id
    world.give_back(lease)
    world.send(OWNER, a.OwnerItem(closing=a.OwnerClosing(reason="done")))
    assert world.killed == [worker]
    assert len(world.core.pool) == 0


def test_prestarted_workers_come_in_waves_until_the_target_is_reached():
    world = World(ahead=40)
    world.auto_register = False
    world.core.prestart()
    world.run()
    assert len(world.spawned) == limits.WORKER_STARTS_IN_FLIGHT_MAX
    for spawn in world.spawned:  # grows while it is walked
        world.register(spawn.worker_id)
        world.run()
    assert len(world.spawned) == 40


def test_workers_forked_ahead_are_replaced_in_quiet_times():
    world = World(ahead=2)
    world.core.prestart()
    world.run()
    world.open()
    world.ask(1, actor=True)
    assert len(world.spawned) == 2
    world.advance(limits.REFILL_QUIET_MS)
    assert len(world.spawned) == 3
