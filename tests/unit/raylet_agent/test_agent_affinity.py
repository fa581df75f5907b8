"""Work bound to a node the scheduler never heard of: it may just have joined."""

from __future__ import annotations

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent import limits
from tests.unit.raylet_agent.agent_world import World, view

A, B = b"a" * 16, b"b" * 16
WAIT_MS = limits.AFFINITY_UNKNOWN_WAIT_MS
HARD_AND_SOFT = pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])


@pytest.fixture
def head():
    """A scheduler with 1 CPU of its own."""
    made = World(scheduler=True, CPU=1)
    made.open()
    yield made
    made.check()


def dead(node):
    return n.NodeChange(node=t.NodeRecord(node_id=node, state=t.NODE_STATE_DEAD))


def waiting(head):
    return len(head.core.leasing.queue)


@HARD_AND_SOFT
def test_the_view_of_the_node_wakes_what_is_bound_to_it(head, soft):
    asked = [head.ask(i, affinity_node_id=A, affinity_soft=soft) for i in range(3)]
    head.gcs(view=view(B))
    head.advance(WAIT_MS - 1)
    assert head.heard() == []
    head.gcs(view=view(A, total={"CPU": 3}))
    assert [item.node_id for item in head.items("redirect")] == [A] * 3
    assert len(asked) == 3
    head.advance(WAIT_MS)
    assert head.heard() == []
    assert waiting(head) == 0


@HARD_AND_SOFT
def test_a_full_node_that_joins_is_waited_for_without_end(head, soft):
    asked = head.ask(1, affinity_node_id=A, affinity_soft=soft)
    head.gcs(view=view(A, free={}))
    head.advance(10 * WAIT_MS)
    assert head.heard() == []
    head.gcs(view=view(A, version=2))
    assert head.heard() == [("redirect", asked)]


def questions(head):
    """Nodes about which the GCS was asked since last looked."""
    asked = [
        item.node_question.node_id for item in head.gcs_items if item.HasField("node_question")
    ]
    head.gcs_items.clear()
    return asked


def say(head, node, *, alive):
    head.gcs(node_answer=n.NodeAnswer(node_id=node, alive=alive))


def test_the_gcs_is_asked_once_a_node_and_its_no_ends_the_wait(head):
    hard = [head.ask(i, affinity_node_id=A) for i in (1, 2)]
    soft = head.ask(3, affinity_node_id=B, affinity_soft=True)
    assert questions(head) == [A, B]
    say(head, B, alive=False)
    assert head.heard() == [("grant", soft)]
    say(head, A, alive=False)
    assert questions(head) == [A]  # for the second request, which came after the question left
    assert head.heard() == [("failed", hard[0])]
    say(head, A, alive=False)
    assert head.heard() == [("failed", hard[1])]
    assert questions(head) == []
    assert waiting(head) == 0


def test_a_node_that_joined_between_the_question_and_a_request_is_waited_for(head):
    first = head.ask(1, affinity_node_id=A)
    second = head.ask(2, affinity_node_id=A)
    say(head, A, alive=False)
    assert head.heard() == [("failed", first)]
    say(head, A, alive=True)
    assert head.heard() == []
    head.gcs(view=view(A))
    assert head.heard() == [("redirect", second)]


def test_what_the_last_session_did_not_answer_is_asked_again(head):
    asked = [head.ask(i, affinity_node_id=A) for i in (1, 2)]
    assert questions(head) == [A]
    head.core.welcomed(n.Welcome(cluster_id=b"c" * 16, epoch=2), head.now_ms)
    head.run()
    assert questions(head) == [A]
    say(head, A, alive=False)
    assert head.heard() == [("failed", one) for one in asked]
    assert questions(head) == []


def test_beyond_the_bound_of_open_questions_the_time_out_decides(head, monkeypatch):
    monkeypatch.setattr(limits, "NODE_QUESTIONS_MAX", 1)
    head.ask(1, affinity_node_id=A)
    head.ask(2, affinity_node_id=B)
    assert questions(head) == [A]
    head.advance(WAIT_MS)
    assert len(head.items("failed")) == 2


def test_without_a_view_hard_affinity_fails_after_the_wait(head):
    head.ask(1, affinity_node_id=A)
    head.advance(WAIT_MS - 1)
    head.ask(2, affinity_node_id=A)
    assert head.items("failed") == []
    head.advance(1)
    (failed,) = head.items("failed")
    assert failed.reason == a.LEASE_FAILURE_UNSCHEDULABLE
    assert failed.message == f"node {A.hex()} is not in the cluster"
    assert waiting(head) == 1
    head.advance(WAIT_MS)
    assert len(head.items("failed")) == 1
    assert waiting(head) == 0


def test_without_a_view_soft_affinity_goes_elsewhere_after_the_wait(head):
    first = head.ask(1, affinity_node_id=A, affinity_soft=True)
    head.advance(WAIT_MS - 1)
    assert head.heard() == []
    head.advance(1)
    assert head.heard() == [("grant", first)]


def test_soft_affinity_that_found_no_other_room_takes_the_first_there_is(head):
    first = head.ask(1)
    second = head.ask(2, affinity_node_id=A, affinity_soft=True)
    head.advance(WAIT_MS)
    assert head.heard() == [("grant", first)]
    head.give_back(first)
    assert head.heard() == [("grant", second)]


def test_soft_affinity_that_no_node_can_hold_is_infeasible_until_one_joins(head):
    head.ask(1, resources={"GPU": 1}, affinity_node_id=A, affinity_soft=True)
    assert head.items("pending") == []
    head.advance(WAIT_MS)
    assert [item.infeasible for item in head.items("pending")] == [True]
    head.gcs(view=view(B, total={"GPU": 1}, free={}))
    assert not head.core.snapshots.demand().entries[0].infeasible
    head.gcs(view=view(B, version=2, total={"GPU": 1}))
    assert [item.node_id for item in head.items("redirect")] == [B]


def test_a_node_that_joins_too_small_decides_at_once(head):
    head.ask(1, resources={"CPU": 9}, affinity_node_id=A)
    head.ask(2, resources={"CPU": 9}, affinity_node_id=A)
    head.gcs(view=view(A))
    failed = head.items("failed")
    assert [item.reason for item in failed] == [a.LEASE_FAILURE_UNSCHEDULABLE] * 2
    assert "are needed" in failed[0].message
    assert waiting(head) == 0


@pytest.mark.parametrize("seen", [False, True], ids=["never in view", "seen before"])
def test_a_node_known_to_be_dead_is_not_waited_for(head, seen):
    if seen:
        head.gcs(view=view(A))
    head.gcs(node_change=dead(A))
    head.ask(1, affinity_node_id=A)
    assert [item.reason for item in head.items("failed")] == [a.LEASE_FAILURE_UNSCHEDULABLE]
    asked = head.ask(2, affinity_node_id=A, affinity_soft=True)
    assert head.items("grant")[0].lease_id == asked


def test_news_of_the_death_ends_the_wait(head):
    head.ask(1, affinity_node_id=A)
    soft = head.ask(2, affinity_node_id=A, affinity_soft=True)
    head.ask(3, affinity_node_id=B)
    head.gcs(node_change=dead(A))
    assert len(head.items("failed")) == 1
    assert [item.lease_id for item in head.items("grant")] == [soft]
    assert waiting(head) == 1


def test_softly_bound_work_that_waits_for_room_moves_when_its_node_dies(head):
    head.gcs(view=view(A, free={}))
    asked = head.ask(1, affinity_node_id=A, affinity_soft=True)
    assert head.heard() == []
    head.gcs(view=view(A, alive=False))
    assert head.heard() == [("grant", asked)]


def test_a_cancel_ends_the_wait(head):
    asked = head.ask(1, affinity_node_id=A)
    head.cancel(asked)
    assert [item.reason for item in head.items("failed")] == [a.LEASE_FAILURE_CANCELLED]
    head.advance(WAIT_MS)
    head.gcs(view=view(A))
    assert head.heard() == []


def test_only_so_many_deaths_are_remembered(head):
    nodes = [i.to_bytes(16, "big") for i in range(limits.DEAD_NODES_REMEMBERED_MAX + 1)]
    for node in nodes:
        head.core.views.lost(node)
    assert [head.core.views.is_dead(node) for node in (nodes[0], nodes[1], nodes[-1])] == [
        False,
        True,
        True,
    ]
