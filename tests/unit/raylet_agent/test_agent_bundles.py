from __future__ import annotations

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from tests.unit.raylet_agent.agent_world import GROUP, World

PREPARE = n.BUNDLE_ACTION_PREPARE
COMMIT = n.BUNDLE_ACTION_COMMIT
BOTH = n.BUNDLE_ACTION_PREPARE_AND_COMMIT
CANCEL = n.BUNDLE_ACTION_CANCEL
RETURN = n.BUNDLE_ACTION_RETURN


def test_prepare_takes_all_bundles_or_none(world):
    assert world.bundle(PREPARE, b0={"CPU": 2}, b1={"CPU": 2}).ok
    assert world.free() == 0
    refused = world.bundle(PREPARE, group=b"h" * 24, b0={"CPU": 1}, b1={"CPU": 4})
    assert (refused.ok, refused.reason) == (False, "insufficient_free")
    assert world.free() == 0


def test_commands_are_idempotent(world):
    for _ in range(2):
        assert world.bundle(PREPARE, b0={"CPU": 1}).ok
    for _ in range(2):
        assert world.bundle(COMMIT, b0={"CPU": 1}).ok
    assert world.free() == 3
    for _ in range(2):
        assert world.bundle(RETURN, b0={"CPU": 1}).ok
    assert world.free() == 4


def test_a_prepare_that_arrives_after_its_cancel_is_refused(world):
    assert world.bundle(CANCEL, attempt=3).ok
    assert world.bundle(PREPARE, attempt=3, b0={"CPU": 1}).reason == "stale_attempt"
    assert world.bundle(PREPARE, attempt=4, b0={"CPU": 1}).ok
    assert world.free() == 3


def test_a_cancel_leaves_bundles_of_other_attempts(world):
    world.bundle(BOTH, attempt=1, b0={"CPU": 1})
    world.bundle(PREPARE, attempt=2, b1={"CPU": 1})
    world.bundle(CANCEL, attempt=2)
    assert world.free() == 3
    world.bundle(RETURN, attempt=2)
    assert world.free() == 3


def test_commit_of_what_is_not_prepared_is_refused(world):
    assert world.bundle(COMMIT, b0={"CPU": 1}).reason == "stale_attempt"


def test_a_draining_node_takes_no_bundles(world):
    world.gcs(drain=n.DrainCommand(reason=n.DRAIN_REASON_PREEMPTION))
    assert world.bundle(PREPARE, b0={"CPU": 1}).reason == "draining"


def test_snapshots_say_which_reservations_they_contain(world):
    world.bundle(PREPARE, seq=3, b0={"CPU": 1})
    snapshot = world.core.snapshots.build()
    assert snapshot.applied_reservations == 3
    assert snapshot.available.amounts["CPU"] == 30_000
    world.core.registering(world.now_ms)
    assert world.core.registration(2, 0).snapshot.applied_reservations == 0


def test_leases_of_a_bundle_draw_from_it_and_have_group_names(world):
    world.bundle(BOTH, b0={"CPU": 2}, b1={"CPU": 1})
    asked = world.ask(1, group=GROUP, index=0)
    assert world.heard() == [("grant", asked)]
    group = GROUP.hex()
    totals = world.core.ledger.totals(with_groups=True)
    free = world.core.ledger.availables(with_groups=True)
    assert totals[f"CPU_group_{group}"] == 30_000
    assert free[f"CPU_group_0_{group}"] == 10_000
    assert free[f"CPU_group_{group}"] == 20_000
    assert totals[f"bundle_group_{group}"] == 20_000_000
    assert free[f"bundle_group_0_{group}"] == 10_000_000 - 10
    assert free["CPU"] == 10_000


def used_in_bundles(world):
    rows = world.core.snapshots.build().bundle_use
    return [(row.index, dict(row.used.amounts), row.leases) for row in rows]


def test_snapshots_say_what_is_used_of_each_bundle(world):
    world.bundle(BOTH, b0={"CPU": 2}, b1={"CPU": 1})
    assert used_in_bundles(world) == []
    first = world.ask(1, group=GROUP, index=0)
    second = world.ask(2, group=GROUP, index=0, resources={})
    assert used_in_bundles(world) == [(0, {"CPU": 10_000}, 2)]
    worker = world.items("grant")[0].worker_id
    blocked = a.WorkerItem(blocked=a.WorkerBlocked(lease_id=first))
    world.core.worker_items(worker, [blocked], world.now_ms)
    assert used_in_bundles(world) == [(0, {}, 2)]
    world.give_back(first, second)
    assert used_in_bundles(world) == []


def test_a_change_inside_a_bundle_alone_is_reported_soon(world):
    """Nothing that decides depends on it: it waits for the next news, a moment at most."""
    world.bundle(BOTH, b0={"CPU": 2})
    lease = world.ask(1, group=GROUP, index=0)
    worker = world.items("grant")[0].worker_id
    world.advance(1_000)
    reports = world.snapshots
    blocked = a.WorkerItem(blocked=a.WorkerBlocked(lease_id=lease))
    world.core.worker_items(worker, [blocked], world.now_ms)
    world.run()
    assert world.snapshots == reports
    world.advance(1_000)
    assert world.snapshots == reports + 1
    world.advance(10_000)
    assert world.snapshots == reports + 1


def test_any_bundle_will_do_without_an_index(world):
    world.bundle(BOTH, b0={"CPU": 1}, b1={"CPU": 1})
    leases = [world.ask(i, group=GROUP) for i in range(3)]
    grants = world.items("grant")
    assert [grant.bundle_index for grant in grants] == [0, 1]
    world.give_back(leases[0])
    assert world.heard() == [("grant", leases[2])]


def test_a_lease_for_a_prepared_bundle_waits_for_the_commit(world):
    world.bundle(PREPARE, b0={"CPU": 1})
    asked = world.ask(1, group=GROUP, index=0)
    assert world.heard() == []
    world.bundle(COMMIT, b0={"CPU": 1})
    assert world.heard() == [("grant", asked)]


def test_an_unknown_bundle_is_not_here(world):
    world.ask(1, group=GROUP, index=0)
    assert world.items("failed")[0].reason == a.LEASE_FAILURE_BUNDLE_NOT_HERE


def test_what_can_never_fit_into_the_bundle_fails_at_once(world):
    world.bundle(BOTH, b0={"CPU": 1})
    world.ask(1, group=GROUP, index=0, resources={"CPU": 2})
    assert world.items("failed")[0].reason == a.LEASE_FAILURE_UNSCHEDULABLE


def test_returning_a_bundle_ends_what_runs_and_waits_in_it(world):
    world.bundle(BOTH, b0={"CPU": 1})
    running = world.ask(1, group=GROUP, index=0)
    waiting = world.ask(2, group=GROUP, index=0)
    world.heard()
    assert world.bundle(RETURN, reason="removed", b0={"CPU": 1}).ok
    ended = world.items("worker_ended")[0]
    assert (ended.lease_id, ended.cause) == (running, a.WORKER_END_CAUSE_PLACEMENT_GROUP_REMOVED)
    failed = world.items("failed")[0]
    assert (failed.lease_id, failed.reason) == (
        waiting,
        a.LEASE_FAILURE_PLACEMENT_GROUP_REMOVED,
    )
    world.ask(3, group=GROUP, index=0)
    assert world.items("failed")[0].reason == a.LEASE_FAILURE_PLACEMENT_GROUP_REMOVED
    assert world.free() == 4


def test_a_return_is_answered_when_the_last_process_is_gone(world):
    world.bundle(BOTH, b0={"CPU": 1})
    world.ask(1, group=GROUP, index=0)
    worker = world.items("grant")[0].worker_id
    world.auto_kill = False
    assert world.bundle(RETURN, b0={"CPU": 1}) is None
    assert world.free() == 3
    world.ended(worker)
    assert [answer.ok for answer in world.answers()] == [True]
    assert world.free() == 4


def test_a_later_attempt_takes_other_room_while_the_old_bundle_is_given_back(world):
    world.bundle(BOTH, b0={"CPU": 1})
    world.ask(1, group=GROUP, index=0)
    worker = world.items("grant")[0].worker_id
    world.auto_kill = False
    moves = "the whole group is placed again"
    assert world.bundle(RETURN, reason=moves, b0={"CPU": 1}) is None
    assert world.bundle(BOTH, attempt=2, b0={"CPU": 1}).ok
    assert world.free() == 2
    ledger = world.core.ledger
    assert ledger.check() == []
    name = f"CPU_group_0_{GROUP.hex()}"
    assert ledger.totals(with_groups=True)[name] == 10_000
    assert ledger.availables(with_groups=True)[name] == 10_000
    world.ask(2, group=GROUP, index=0)
    assert [grant.bundle_index for grant in world.items("grant")] == [0]
    # Old commands of the bundle that goes, repeated, do not touch the one that came.
    assert world.bundle(PREPARE, attempt=1, b0={"CPU": 1}).reason == "stale_attempt"
    assert world.bundle(COMMIT, attempt=1, b0={"CPU": 1}).reason == "stale_attempt"
    stated = [(one.attempt, one.committed) for one in world.core.registration(1, 0).bundles]
    assert stated == [(1, True), (2, True)]
    world.ended(worker)
    assert [(one.attempt, one.ok) for one in world.answers()] == [(1, True)]
    assert world.free() == 3
    assert ledger.check() == []


def test_a_later_attempt_is_refused_when_only_the_old_bundles_room_would_do(world):
    world.bundle(BOTH, b0={"CPU": 3})
    world.ask(1, group=GROUP, index=0)
    worker = world.items("grant")[0].worker_id
    world.auto_kill = False
    assert world.bundle(RETURN, b0={"CPU": 3}) is None
    assert world.bundle(PREPARE, attempt=2, b0={"CPU": 3}).reason == "insufficient_free"
    world.ended(worker)
    assert world.bundle(PREPARE, attempt=3, b0={"CPU": 3}).ok


def test_leases_of_a_group_that_moves_ask_again(world):
    world.bundle(BOTH, b0={"CPU": 1})
    world.ask(1, group=GROUP, index=0)
    world.ask(2, group=GROUP, index=0)
    world.heard()
    world.bundle(RETURN, reason="the whole group is placed again", b0={"CPU": 1})
    assert world.items("failed")[0].reason == a.LEASE_FAILURE_BUNDLE_NOT_HERE


def test_room_of_a_returned_bundle_wakes_plain_requests(world):
    world.bundle(BOTH, b0={"CPU": 4})
    asked = world.ask(1)
    world.bundle(RETURN, b0={"CPU": 4})
    assert world.heard() == [("grant", asked)]


def test_registration_states_bundles_and_owners(world):
    world.bundle(BOTH, attempt=7, b1={"CPU": 1})
    stated = world.core.registration(1, 0)
    held = stated.bundles[0]
    assert (held.placement_group_id, held.index, held.attempt, held.committed) == (
        GROUP,
        1,
        7,
        True,
    )


@pytest.fixture
def gpus():
    made = World(CPU=8, GPU=2)
    made.open()
    yield made
    made.check()


def test_a_fraction_fits_on_one_device_only(gpus):
    for number, amount in enumerate((0.6, 0.6)):
        gpus.ask(number, resources={"GPU": amount})
    devices = [list(grant.devices["GPU"].ids) for grant in gpus.items("grant")]
    assert devices == [[0], [1]]
    refused = gpus.bundle(PREPARE, b0={"GPU": 0.8})
    assert refused.reason == "device_fragmentation"


def test_fractions_fill_the_fullest_device_first(gpus):
    for number, amount in enumerate((0.5, 0.25, 0.25, 1)):
        gpus.ask(number, resources={"GPU": amount})
    devices = [list(grant.devices["GPU"].ids) for grant in gpus.items("grant")]
    assert devices == [[0], [0], [0], [1]]


def test_a_bundle_keeps_its_devices(gpus):
    gpus.bundle(BOTH, b0={"GPU": 1})
    gpus.ask(1, resources={"GPU": 1})
    gpus.ask(2, resources={"GPU": 0.5}, group=GROUP, index=0)
    devices = [list(grant.devices["GPU"].ids) for grant in gpus.items("grant")]
    assert devices == [[1], [0]]
