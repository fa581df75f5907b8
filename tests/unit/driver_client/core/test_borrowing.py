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


def test_what_is_borrowed_again_is_not_removed_by_the_removal_that_waited():
    ledger = BorrowLedger()
    ledger.add(A, "h:1")
    ledger.add(B, "h:2")
    ledger.remove(A, "h:1")
    ledger.add(A, "h:1")
    assert ledger.acknowledged(B) == []
    assert ledger.acknowledged(A) == []
    assert ledger.acknowledged(A) == []
    assert ledger.remove(A, "h:1") == [(A, "h:1")]


class World:
    """A borrower, and what the owners of its objects were told so far, in order."""

    def __init__(self):
        self.ledger = BorrowLedger()
        self.borrowed = set()
        self.known = set()
        self.unanswered = []

    def told(self, removals):
        assert not removals or not self.ledger.is_waiting
        self.known -= {identity for identity, _ in removals}

    def toggle(self, number):
        identity = bytes([number]) * 28
        address = f"h:{number % 2}"
        if identity in self.borrowed:
            self.borrowed.remove(identity)
            self.told(self.ledger.remove(identity, address))
        else:
            self.borrowed.add(identity)
            self.ledger.add(identity, address)
            self.known.add(identity)
            self.unanswered.append(identity)

    def answer(self, number):
        if self.unanswered:
            identity = self.unanswered.pop(number % len(self.unanswered))
            self.told(self.ledger.acknowledged(identity))

    def owner_gone(self, number):
        address = f"h:{number % 2}"
        gone = {bytes([n]) * 28 for n in range(4) if f"h:{n % 2}" == address}
        self.borrowed -= gone
        self.unanswered = [identity for identity in self.unanswered if identity not in gone]
        self.told(self.ledger.owner_gone(address)[1])
        self.known -= gone


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("toggle", "toggle", "answer", "answer", "owner_gone")), st.integers(0, 3)
    ),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_owners_know_of_every_borrowed_object_and_in_the_end_of_no_other(steps):
    world = World()
    for action, number in steps:
        getattr(world, action)(number)
        assert world.borrowed <= world.known
    while world.unanswered:
        world.answer(0)
    assert world.known == world.borrowed
    assert not world.ledger.is_waiting
