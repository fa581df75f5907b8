"""A removal is never told before all additions are acknowledged."""

from hypothesis import given, settings
from hypothesis import strategies as st

from driver_client.core.borrowing import BorrowLedger

A, B = b"a" * 28, b"b" * 28


def test_a_removal_goes_at_once_when_nothing_is_on_its_way():
    ledger = BorrowLedger()
    assert ledger.remove(A, "h:1") == [(A, "h:1")]


def test_a_removal_waits_for_every_addition_whoever_owns_it():
    ledger = BorrowLedger()
    ledger.add(A, "h:1")
    ledger.add(B, "h:2")
    assert ledger.is_waiting
    assert ledger.remove(A, "h:1") == []
    assert ledger.acknowledged(A) == []
    assert ledger.acknowledged(B) == [(A, "h:1")]
    assert not ledger.is_waiting


def test_two_additions_of_one_object_need_two_acknowledgements():
    ledger = BorrowLedger()
    ledger.add(A, "h:1")
    ledger.add(A, "h:1")
    ledger.remove(A, "h:1")
    assert ledger.acknowledged(A) == []
    assert ledger.unacknowledged == {A}
    assert ledger.acknowledged(A) == [(A, "h:1")]


def test_removals_keep_their_order():
    ledger = BorrowLedger()
    ledger.add(A, "h:1")
    ledger.remove(B, "h:2")
    ledger.remove(A, "h:1")
    assert ledger.acknowledged(A) == [(B, "h:2"), (A, "h:1")]


def test_an_owner_that_is_gone_holds_nothing_up():
    ledger = BorrowLedger()
    ledger.add(A, "h:1")
    ledger.add(A, "h:1")
    ledger.remove(B, "h:2")
    assert ledger.owner_gone("h:2") == ([], [])
    assert ledger.owner_gone("h:1") == ([A], [(B, "h:2")])
    assert ledger.acknowledged(A) == [], "a late word changes nothing"
    assert not ledger.is_waiting


STEPS = st.lists(
    st.tuples(st.sampled_from(("add", "ack", "remove", "gone")), st.integers(0, 3)), max_size=60
)


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_removals_only_leave_when_nothing_is_unacknowledged_and_none_is_lost(steps):
    ledger = BorrowLedger()
    objects = [bytes([n]) * 28 for n in range(4)]
    owner = {identity: f"h:{n % 2}" for n, identity in enumerate(objects)}
    asked, sent = [], []
    for action, number in steps:
        identity = objects[number]
        if action == "add":
            ledger.add(identity, owner[identity])
            now = []
        elif action == "ack":
            now = ledger.acknowledged(identity)
        elif action == "gone":
            _, now = ledger.owner_gone(owner[identity])
        else:
            asked.append((identity, owner[identity]))
            now = ledger.remove(identity, owner[identity])
        assert not now or not ledger.is_waiting
        sent += now
        assert sent == asked[: len(sent)]
    for address in ("h:0", "h:1"):
        sent += ledger.owner_gone(address)[1]
    assert sent == asked
