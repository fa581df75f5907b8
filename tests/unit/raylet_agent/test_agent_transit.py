"""Requests between two nodes stay demand until they are seen where they were sent."""

import pytest

from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent import limits
from tests.unit.raylet_agent.agent_world import HERE, OTHER, OWNER, World

A = b"a" * 16


def view(node, *, free, version, taken=()):
    names = [n.LeaseTaken(lease_id=lease_id) for lease_id in taken]
    snapshot = n.ResourceSnapshot(
        version=version,
        total=t.ResourceSet(amounts={"GPU": 10_000, "CPU": 10_000}),
        available=t.ResourceSet(amounts={"GPU": free * 10_000, "CPU": 10_000}),
        leases_taken=names,
    )
    return n.NodeView(node_id=node, address="a:1", snapshot=snapshot, alive=True)


@pytest.fixture
def head():
    world = World(scheduler=True)
    world.open()
    yield world
    world.core.settle(world.now_ms)


def snapshot(world):
    """Built as the shell does: at the moment it leaves."""
    world.core.snapshots.now_ms = world.now_ms
    return world.core.snapshots.build()


def demand(world):
    report = world.core.snapshots.demand()
    return sum(entry.count for entry in report.entries), [x.lease_id for x in report.in_transit]


def test_a_redirected_request_is_in_transit_until_the_target_names_it(head):
    first = head.ask(1, resources={"GPU": 1})
    second = head.ask(2, resources={"GPU": 1})
    assert demand(head) == (2, [])
    head.gcs(view=view(A, free=1, version=1))
    assert demand(head) == (1, [first])
    head.gcs(view=view(A, free=1, version=2))
    assert demand(head) == (1, [first])
    head.gcs(view=view(A, free=0, version=3, taken=[first]))
    assert demand(head) == (1, [])
    assert second


def test_a_rejected_request_counts_once_all_the_time(head):
    lease = head.ask(1, resources={"GPU": 1})
    head.gcs(view=view(A, free=1, version=1))
    assert demand(head) == (0, [lease])
    head.ask(1, resources={"GPU": 1}, rejected_by=[A])
    assert demand(head) == (1, [])
    head.gcs(view=view(A, free=1, version=2))
    assert demand(head) == (0, [lease])


def test_requests_that_never_waited_are_no_demand(head):
    head.gcs(view=view(A, free=1, version=1))
    head.ask(1, resources={"GPU": 1})
    assert demand(head) == (0, [])
    assert not head.items("redirect")[0].HasField("counted")


def test_a_redirect_says_which_reports_counted_the_request(head):
    for _ in range(3):
        demand(head)
    head.ask(1, resources={"GPU": 1})
    for _ in range(2):
        demand(head)
    head.gcs(view=view(A, free=1, version=1))
    demand(head)
    counted = n.CountedDemand(node_id=HERE, first_version=4, last_version=5)
    assert [item.counted for item in head.items("redirect")] == [counted]
    # The same question again, and the same answer.
    head.ask(1, resources={"GPU": 1})
    assert [item.counted for item in head.items("redirect")] == [counted]


def test_a_request_that_left_before_any_report_says_so(head):
    head.ask(1, resources={"GPU": 1})
    head.gcs(view=view(A, free=1, version=1))
    (redirect,) = head.items("redirect")
    assert (redirect.counted.first_version, redirect.counted.last_version) == (1, 0)


@pytest.mark.parametrize("arrived", [False, True])
def test_a_request_withdrawn_on_its_way_is_forgotten(head, arrived):
    lease = head.ask(1, resources={"GPU": 1})
    head.gcs(view=view(A, free=1, version=1))
    if arrived:
        head.gcs(view=view(A, free=1, version=2, taken=[lease]))
    else:
        head.cancel(lease)
    assert demand(head) == (0, [])


def test_a_node_names_what_was_withdrawn_on_its_way_here():
    world = World()
    world.open(OTHER, home=False)
    world.cancel(b"somewhere else" + b"!" * 10, owner=OTHER)
    (named,) = snapshot(world).leases_taken
    assert named == n.LeaseTaken(lease_id=b"somewhere else" + b"!" * 10)


def test_what_was_lost_on_its_way_is_forgotten(head):
    lease = head.ask(1, resources={"GPU": 1})
    head.gcs(view=view(A, free=1, version=1))
    assert demand(head) == (0, [lease])
    for _ in range(limits.LEASE_IN_TRANSIT_MS // limits.DEDUCTION_MS + 1):
        head.advance(limits.DEDUCTION_MS)
    assert demand(head) == (0, [])


def test_requests_of_a_dead_owner_are_forgotten(head):
    head.ask(1, resources={"GPU": 1})
    head.gcs(view=view(A, free=1, version=1))
    head.gcs(owners_died=n.OwnersDied(owner_ids=[OWNER]))
    assert demand(head) == (0, [])


def test_a_node_names_what_a_scheduler_sent_here_for_a_while():
    world = World()
    world.open(OTHER, home=False)
    counted = n.CountedDemand(node_id=A, first_version=1, last_version=2)
    options = {"resources": {"CPU": 1}, "grant_or_reject": True}
    lease = world.ask(1, OTHER, counted=counted, **options)
    world.ask(2, OTHER, **options)
    world.ask(3, OTHER, resources={"CPU": 1})
    (named,) = snapshot(world).leases_taken
    assert (named.lease_id, named.counted) == (lease, counted)
    assert dict(named.resources.amounts) == {"CPU": 10_000}
    world.advance(limits.LEASE_TAKEN_NAMED_MS)
    assert list(snapshot(world).leases_taken) == []


def test_a_node_is_idle_from_the_moment_its_last_bundle_left():
    world = World()
    world.advance(5_000)
    assert snapshot(world).idle_ms == 5_000
    world.open()
    lease = world.ask(1, resources={"CPU": 1})
    assert snapshot(world).idle_ms == 0
    world.advance(1_000)
    world.give_back(lease)
    assert snapshot(world).idle_ms == 1
    world.advance(700)
    assert snapshot(world).idle_ms == 700


def test_work_bound_to_one_node_says_so_in_its_demand(head):
    head.gcs(view=view(A, free=0, version=1))
    head.ask(1, resources={"GPU": 1}, affinity_node_id=A)
    entry = head.core.snapshots.demand().entries[0]
    assert dict(entry.selector.terms) == {"shoal.io/node-id": A.hex()}
