from __future__ import annotations

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from raylet_agent import limits
from tests.unit.raylet_agent.agent_world import HERE, World, view

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
SPREAD = a.SCHEDULING_STRATEGY_SPREAD


@pytest.fixture
def head():
    """A scheduler with 1 CPU of its own."""
    made = World(scheduler=True, CPU=1)
    made.open()
    yield made
    made.check()


def redirects(world):
    return [redirect.node_id for redirect in world.items("redirect")]


def test_the_own_node_comes_first(head):
    asked = head.ask(1)
    assert head.heard() == [("grant", asked)]


def test_a_redirect_deducts_until_the_snapshot_contains_the_lease(head):
    head.gcs(view=view(A, total={"CPU": 2}))
    leases = [head.ask(i, resources={"CPU": 2}) for i in range(2)]
    assert redirects(head) == [A]
    head.gcs(view=view(A, version=2, total={"CPU": 2}))
    assert redirects(head) == []
    head.gcs(view=view(A, version=3, total={"CPU": 2}, free={}, seen=1))
    head.gcs(view=view(A, version=4, total={"CPU": 2}, seen=1))
    assert head.heard() == [("redirect", leases[1])]


def test_a_deduction_ends_by_itself(head):
    head.gcs(view=view(A, total={"CPU": 2}))
    head.ask(1, resources={"CPU": 2})
    second = head.ask(2, resources={"CPU": 2})
    head.heard()
    head.advance(limits.DEDUCTION_MS)
    assert head.heard() == [("redirect", second)]


def test_a_return_ends_the_deduction(head):
    head.gcs(view=view(A, total={"CPU": 2}))
    first = head.ask(1, resources={"CPU": 2})
    second = head.ask(2, resources={"CPU": 2})
    head.heard()
    head.give_back(first)
    assert head.heard() == [("redirect", second)]


def test_a_rejected_request_goes_elsewhere_first(head):
    for node in (A, B):
        head.gcs(view=view(node))
    first = head.ask(1, resources={"CPU": 2})
    chosen = redirects(head)[0]
    head.ask(1, resources={"CPU": 2}, rejected_by=[chosen])
    assert first
    assert redirects(head) == [({A, B} - {chosen}).pop()]


def test_a_node_that_rejected_is_asked_again_after_a_while(head):
    head.gcs(view=view(A))
    head.ask(1, resources={"CPU": 2})
    head.ask(1, resources={"CPU": 2}, rejected_by=[A])
    assert redirects(head) == [A]
    head.advance(limits.REJECTION_HOLD_MS)
    assert redirects(head) == [A]


def test_infeasible_requests_say_so_and_wait_for_a_node(head):
    asked = head.ask(1, resources={"GPU": 1})
    pending = head.items("pending")[0]
    assert pending.infeasible
    assert "GPU" in pending.message
    entry = head.core.snapshots.demand().entries[0]
    assert (entry.count, entry.infeasible, entry.resources.amounts["GPU"]) == (1, True, 10_000)
    head.gcs(view=view(A, total={"CPU": 1, "GPU": 1}))
    assert head.heard() == [("redirect", asked)]
    assert len(head.core.snapshots.demand().entries) == 0


def test_a_joining_node_that_is_full_makes_a_request_feasible(head):
    head.ask(1, resources={"GPU": 1})
    head.gcs(view=view(A, total={"GPU": 1}, free={}))
    assert not head.core.snapshots.demand().entries[0].infeasible


def test_spread_goes_round(head):
    for node in (A, B, C):
        head.gcs(view=view(node))
    asked = [head.ask(i, strategy=SPREAD) for i in range(4)]
    assert asked
    assert redirects(head) == [A, B, C]
    assert [kind for kind, _ in head.heard()] == ["grant"]


def test_hard_affinity_waits_for_its_node_and_fails_when_it_is_gone(head):
    head.gcs(view=view(A, free={}))
    asked = head.ask(1, affinity_node_id=A)
    assert head.heard() == []
    head.gcs(view=view(A, version=2))
    assert head.heard() == [("redirect", asked)]
    head.gcs(view=view(A, alive=False))
    head.ask(2, affinity_node_id=A)
    assert head.items("failed")[0].reason == a.LEASE_FAILURE_UNSCHEDULABLE


def test_a_waiting_hard_affinity_fails_when_its_node_dies(head):
    head.gcs(view=view(A, free={}))
    head.ask(1, affinity_node_id=A)
    head.gcs(view=view(A, alive=False))
    assert head.items("failed")[0].reason == a.LEASE_FAILURE_UNSCHEDULABLE


def test_soft_affinity_falls_back_when_its_node_is_gone(head):
    head.gcs(view=view(C))
    head.gcs(view=view(C, alive=False))
    asked = head.ask(1, affinity_node_id=C, affinity_soft=True)
    assert head.heard() == [("grant", asked)]


def test_the_fallback_selector_is_used_only_when_the_first_finds_no_room(head):
    head.gcs(view=view(A, labels={"zone": "x"}, free={}))
    head.gcs(view=view(B, labels={"zone": "y"}))
    head.ask(1, selector={"zone": "x"}, fallback=[{"zone": "y"}])
    assert redirects(head) == [B]
    head.gcs(view=view(A, version=2, labels={"zone": "x"}))
    head.ask(2, selector={"zone": "x"}, fallback=[{"zone": "y"}])
    assert redirects(head) == [A]


def test_work_without_devices_keeps_off_nodes_that_have_some(head):
    head.gcs(view=view(A, total={"CPU": 4, "GPU": 1}))
    head.gcs(view=view(B, total={"CPU": 4}))
    head.ask(1, resources={"CPU": 2})
    assert redirects(head) == [B]


def test_half_full_nodes_are_filled_last(head):
    head.gcs(view=view(A, total={"CPU": 4}, free={"CPU": 1}))
    head.gcs(view=view(B, total={"CPU": 4}, free={"CPU": 3}))
    head.ask(0)
    head.ask(1)
    assert redirects(head) == [B]


def test_a_draining_node_is_not_chosen(head):
    draining = view(A)
    draining.snapshot.draining = True
    head.gcs(view=draining)
    head.ask(1, resources={"CPU": 2})
    assert redirects(head) == []


def test_an_older_view_changes_nothing(head):
    head.gcs(view=view(A, version=5, free={}))
    head.gcs(view=view(A, version=4))
    head.ask(1, resources={"CPU": 2})
    assert redirects(head) == []


def test_the_scheduler_names_itself(head):
    welcome = head.open()
    assert (welcome.is_scheduler, welcome.scheduler_address) == (True, "here:1")
    assert welcome.node_id == HERE


def test_actors_that_hold_nothing_go_round_the_nodes(head):
    for node in (A, B):
        head.gcs(view=view(node))
    for number in range(6):
        head.ask(number, resources={}, place={"CPU": 1}, actor=True)
    assert redirects(head) == [A, B, A, B]
    assert [kind for kind, _ in head.heard()] == ["grant", "grant"]


def test_an_agent_without_the_role_sends_them_to_the_scheduler_if_there_is_one(world):
    first = world.ask(1, resources={}, place={"CPU": 1}, actor=True)
    assert world.heard() == [("grant", first)]
    world.gcs(node_change=n.NodeChange(scheduler_address="head:1"))
    second = world.ask(2, resources={}, place={"CPU": 1}, actor=True)
    assert world.heard() == [("node_change", b""), ("redirect", second)]


def test_the_same_question_gets_the_same_answer(head):
    for node in (A, B):
        head.gcs(view=view(node))
    for _ in range(2):
        head.ask(1, resources={}, place={"CPU": 1}, actor=True)
    assert redirects(head) == [A, A]
