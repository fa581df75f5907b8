"""O-23: pending and running add up in every answer, in whatever order the reports come."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver_client import limits
from tests.contracts.demand_world import A, B, DemandWorld, Place, Tasks

ORDER = st.lists(st.integers(0, 1 << 16), max_size=150)
ROOM = st.integers(0, 3)
SLOW = st.integers(0, 3)


def chooser(numbers):
    rest = iter(numbers)
    return lambda of: next(rest, 0) % of


class Odometer:
    """Every sequence of choices, one after another."""

    def __init__(self):
        self._digits = []
        self._position = 0
        self.done = False

    def choose(self, of):
        if self._position == len(self._digits):
            self._digits.append((0, of))
        chosen, known_of = self._digits[self._position]
        assert known_of == of, "a replay went another way"
        self._position += 1
        return chosen

    def turn(self):
        """To the next sequence."""
        self._position = 0
        while self._digits:
            chosen, of = self._digits.pop()
            if chosen + 1 < of:
                self._digits.append((chosen + 1, of))
                return
        self.done = True


def begin(world, wanted):
    """The head and the GCS hear of everything asked so far; then the other nodes come."""
    head = world.head
    while own := [move for move in world.moves() if move[1] is head and move[0] != world.come]:
        own[0][0](head)
    assert world.pending() + world.used() == wanted
    for place in world.places[1:]:
        place.dirty = True


def adds_up(world, wanted):
    def check():
        assert world.pending() + world.used() == wanted, (world.pending(), world.used())

    return check


def test_every_order_of_one_request_that_moves_to_a_node_that_joined():
    odometer = Odometer()
    orders = 0
    while not odometer.done:
        world = DemandWorld(takers=[(A, 1)])
        world.ask()
        begin(world, 1)
        world.run(odometer.choose, adds_up(world, 1))
        assert (world.pending(), world.used()) == (0, 1)
        odometer.turn()
        orders += 1
    assert orders > 10


def rivals(world, coming):
    """Each comes and goes, at node A or B; the scheduler's choice may be wrong meanwhile."""
    for which in coming:
        place = world.places[which]
        world.later += [(Place.rival_comes, place), (Place.rival_goes, place)]


RIVALS = st.lists(st.integers(1, 2), max_size=3)


@settings(max_examples=300, deadline=None)
@given(ORDER, ROOM, ROOM, st.integers(1, 6), RIVALS, SLOW)
def test_requests_that_move_and_are_rejected_add_up(numbers, room_a, room_b, wanted, coming, slow):
    world = DemandWorld(takers=[(A, room_a), (B, room_b)])
    for _ in range(wanted):
        world.ask()
    rivals(world, coming)
    begin(world, wanted)
    world.slow = dict(enumerate(world.places)).get(slow)
    world.run(chooser(numbers), adds_up(world, wanted))
    run = min(wanted, room_a + room_b)
    assert (world.pending(), world.used()) == (wanted - run, run)
    assert len(world.table.taken) == 0


@settings(max_examples=300, deadline=None)
@given(ORDER, ROOM, ROOM, st.integers(1, 12), st.integers(0, 2), RIVALS, SLOW)
def test_tasks_that_move_out_of_the_backlog_add_up(
    numbers, room_a, room_b, wanted, head_room, coming, slow
):
    world = DemandWorld(takers=[(A, room_a), (B, room_b)], head_room=head_room)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "LEASE_REQUESTS_PENDING_MAX", 2)
        Tasks(world, wanted)
        rivals(world, coming)
        begin(world, wanted)
        world.slow = dict(enumerate(world.places)).get(slow)
        world.run(chooser(numbers), adds_up(world, wanted))
    run = min(wanted, head_room + room_a + room_b)
    assert (world.pending(), world.used()) == (wanted - run, run)
    assert len(world.table.taken) == 0


@settings(max_examples=300, deadline=None)
@given(ORDER, ROOM, ROOM, st.integers(1, 4), st.integers(0, 4), SLOW)
def test_requests_that_come_meanwhile_are_added_once_each(
    numbers, room_a, room_b, first, more, slow
):
    """No request is counted twice, and what was counted once does not vanish."""
    world = DemandWorld(takers=[(A, room_a), (B, room_b)])
    for _ in range(first):
        world.ask()
    begin(world, first)
    world.later += [(lambda _: world.ask(), world.head)] * more
    seen = [first]

    def check():
        now = world.pending() + world.used()
        assert seen[-1] <= now <= world.asked, (seen[-1], now, world.asked)
        seen.append(now)

    world.slow = dict(enumerate(world.places)).get(slow)
    world.run(chooser(numbers), check)
    assert world.pending() + world.used() <= first + more
