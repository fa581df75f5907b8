"""What owners would ask for if they had more requests open is demand."""

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from raylet_agent import limits
from raylet_agent.core.effects import ReportDemand
from tests.unit.raylet_agent.agent_world import GROUP, OTHER, OWNER, World, request, view

A = b"a" * 16
GPU = {"resources": {"GPU": 1}}


@pytest.fixture
def head():
    world = World(scheduler=True)
    world.open()
    yield world
    world.check()


def counts(world):
    return [(entry.count, entry.infeasible) for entry in world.core.snapshots.demand().entries]


def told(world, count, *, key=1, owner=OWNER, **options):
    like = request(0, owner, backlog=a.Backlog(key=key, count=count), **(options or GPU))
    like.lease_id = b""
    world.send(owner, a.OwnerItem(backlog=like))


def ask(world, number, behind, *, key=1, **options):
    return world.ask(number, backlog=a.Backlog(key=key, count=behind), **(options or GPU))


def test_a_request_brings_what_is_behind_it(head):
    ask(head, 1, behind=2)
    assert counts(head) == [(3, True)]
    ask(head, 2, behind=1)
    assert counts(head) == [(3, True)]
    head.ask(3, **GPU)
    assert counts(head) == [(4, True)]


def test_the_count_is_replaced_by_the_newest_one_of_its_key(head):
    ask(head, 1, behind=5)
    told(head, 7)
    told(head, 2, key=2)
    assert counts(head) == [(10, True)]
    told(head, 0)
    assert counts(head) == [(3, True)]
    told(head, 4, resources={"TPU": 1})
    told(head, 0, key=2)
    assert counts(head) == [(4, False), (1, True)]


def test_only_a_change_is_reported(head):
    head.core.drain()
    items = [a.OwnerItem(backlog=request(0, backlog=a.Backlog(key=1, count=3), **GPU))]
    head.core.owner_items(OWNER, items, head.now_ms)
    assert ReportDemand() in head.core.drain()
    head.core.owner_items(OWNER, items, head.now_ms)
    assert ReportDemand() not in head.core.drain()


def test_a_request_out_of_the_backlog_that_is_sent_away_counts_until_it_is_seen(head):
    ask(head, 1, behind=1)
    assert counts(head) == [(2, True)]
    head.gcs(view=view(A, total={"GPU": 2}))
    second = ask(head, 2, behind=0)
    redirects = head.items("redirect")
    assert [(r.counted.first_version, r.counted.last_version) for r in redirects] == [(1, 1)] * 2
    report = head.core.snapshots.demand()
    assert (list(report.entries), len(report.in_transit)) == ([], 2)
    named = [n.LeaseTaken(lease_id=second)]
    taken = view(A, version=2, total={"GPU": 2}, free={"GPU": 1})
    taken.snapshot.leases_taken.extend(named)
    head.gcs(view=taken)
    assert len(head.core.snapshots.demand().in_transit) == 1


def test_a_request_in_front_of_a_new_backlog_was_no_part_of_it(head):
    head.gcs(view=view(A, total={"GPU": 1}))
    ask(head, 1, behind=3)
    assert not head.items("redirect")[0].HasField("counted")
    assert counts(head) == [(3, False)]


def test_a_repeated_request_says_it_anew(head):
    ask(head, 1, behind=5)
    ask(head, 1, behind=2)
    assert counts(head) == [(3, True)]


def test_with_its_owner_it_goes(head):
    told(head, 3)
    head.send(OWNER, a.OwnerItem(closing=a.OwnerClosing()))
    assert counts(head) == []


@pytest.mark.parametrize("waits", [False, True])
def test_of_an_owner_elsewhere_it_stays_while_something_else_does(head, waits):
    head.open(OTHER, home=False)
    if waits:
        head.ask(1, OTHER, **GPU)
    told(head, 3, owner=OTHER)
    head.core.session_lost(OTHER, head.now_ms)
    head.run()
    assert counts(head) == ([(4, True)] if waits else [])
    head.gcs(owners_died=n.OwnersDied(owner_ids=[OTHER]))
    assert counts(head) == []


def test_a_dead_owner_is_not_heard(head):
    head.gcs(owners_died=n.OwnersDied(owner_ids=[OTHER]))
    told(head, 3, owner=OTHER)
    assert counts(head) == []


def test_what_cannot_be_counted_is_left_out(head):
    told(head, 3, affinity_node_id=b"short")
    told(head, 3, group=GROUP)
    assert counts(head) == []
    told(head, 1 << 63)
    assert counts(head) == [(limits.BACKLOG_COUNT_MAX, False)]


def test_kinds_beyond_the_limit_are_left_out(head, monkeypatch):
    monkeypatch.setattr(limits, "BACKLOGS_MAX", 2)
    for key in range(3):
        told(head, 1, key=key)
    assert counts(head) == [(2, False)]
    told(head, 0, key=0)
    told(head, 5, key=2)
    assert counts(head) == [(6, False)]


def test_what_comes_with_a_node_already_chosen_says_nothing(head):
    head.ask(1, resources={"CPU": 1}, grant_or_reject=True, backlog=a.Backlog(key=1, count=5))
    assert counts(head) == []
