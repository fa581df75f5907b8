"""Late views: what was sent to a node counts there until the node says that it came."""

from __future__ import annotations

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from raylet_agent import limits
from raylet_agent.core.sendings import SendingsSeen, is_seen
from tests.unit.raylet_agent.agent_world import HERE, OTHER, World, request, view

A = b"a" * 16
LATE_MS = 1_000


def scheduler() -> World:
    made = World(scheduler=True, CPU=1)
    made.open()
    return made


def redirects(world: World) -> list[bytes]:
    return [redirect.node_id for redirect in world.items("redirect")]


def named(seen: SendingsSeen, now_ms: int) -> list[tuple[bytes, int, list[int]]]:
    return [(x.scheduler_id, x.all_up_to, list(x.also)) for x in seen.named(now_ms)]


def test_a_snapshot_from_before_the_request_came_changes_nothing():
    """However long after the redirect it arrives, within the deduction's time."""
    head = scheduler()
    head.gcs(view=view(A, total={"CPU": 2}))
    for number in range(2):
        head.ask(number, resources={"CPU": 2})
    assert redirects(head) == [A]
    head.advance(LATE_MS)
    head.gcs(view=view(A, version=2, total={"CPU": 2}))
    assert redirects(head) == []


def test_each_redirect_carries_the_next_number_of_its_node():
    head = scheduler()
    head.gcs(view=view(A, total={"CPU": 4}))
    for number in range(2):
        head.ask(number, resources={"CPU": 2})
    sent = [(x.sending.scheduler_id, x.sending.number) for x in head.items("redirect")]
    assert sent == [(HERE, 1), (HERE, 2)]


def test_a_node_says_which_requests_came_with_the_room_they_took():
    node = World(CPU=4)
    node.open()
    asked = request(1, resources={"CPU": 1}, grant_or_reject=True)
    asked.sending.CopyFrom(a.Sending(scheduler_id=OTHER, number=1))
    node.send(b"o" * 16, a.OwnerItem(request=asked))
    snapshot = node.core.snapshots.build()
    assert snapshot.available.amounts["CPU"] == 30_000
    assert list(snapshot.sendings_seen) == [n.SendingsSeen(scheduler_id=OTHER, all_up_to=1)]


def test_a_rejection_tells_the_scheduler_what_its_view_lacked():
    head = scheduler()
    head.gcs(view=view(A, total={"CPU": 2}))
    head.ask(1, resources={"CPU": 2})
    full = view(A, version=7, total={"CPU": 2}, free={}, seen=1).snapshot
    back = request(1, resources={"CPU": 2}, rejected_by=[A])
    back.rejection.CopyFrom(a.LeaseReject(node_id=A, snapshot=full))
    head.send(b"o" * 16, a.OwnerItem(request=back))
    head.ask(2, resources={"CPU": 2})
    head.gcs(view=view(A, version=3, total={"CPU": 2}))  # older than what the rejection said
    head.advance(limits.REJECTION_HOLD_MS)
    assert redirects(head) == [A]  # the first one only


def test_a_leaked_deduction_is_gone_in_time_while_nothing_else_moves():
    """Also one that was made while the timer of an earlier one ran."""
    head = scheduler()
    head.gcs(view=view(A, total={"CPU": 4}))
    head.ask(1, resources={"CPU": 2})
    head.advance(limits.DEDUCTION_MS - 100)
    head.ask(2, resources={"CPU": 2})
    head.advance(100)
    known = head.core.views.get(A)
    assert known is not None
    assert known.available["CPU"] == 20_000
    head.advance(limits.DEDUCTION_MS - 100)
    assert known.available["CPU"] == 40_000
    assert head.core.views.deducted() == []


def test_numbers_that_came_out_of_order_are_named_until_the_gap_closes():
    seen = SendingsSeen()
    for number in (1, 3, 4):
        seen.came(a.Sending(scheduler_id=OTHER, number=number), 0)
    assert named(seen, 0) == [(OTHER, 1, [3, 4])]
    seen.came(a.Sending(scheduler_id=OTHER, number=2), 0)
    assert named(seen, 0) == [(OTHER, 4, [])]


def test_a_number_that_never_comes_is_not_waited_for():
    seen = SendingsSeen()
    seen.came(a.Sending(scheduler_id=OTHER, number=2), 0)
    seen.came(a.Sending(scheduler_id=OTHER, number=4), limits.DEDUCTION_MS - 1)
    assert named(seen, limits.DEDUCTION_MS) == [(OTHER, 2, [4])]


def test_a_scheduler_that_sent_nothing_lately_is_not_named():
    seen = SendingsSeen()
    seen.came(a.Sending(scheduler_id=OTHER, number=1), 0)
    assert named(seen, limits.DEDUCTION_MS) == []


def test_what_is_not_named_is_not_seen():
    assert not is_seen(None, 1)
    row = n.SendingsSeen(scheduler_id=OTHER, all_up_to=2, also=[5])
    assert [number for number in range(1, 7) if is_seen(row, number)] == [1, 2, 5]
