from __future__ import annotations

from raylet_agent import limits
from raylet_agent.core.timers import Timers
from raylet_agent.core.tombstones import Tombstones


def test_deadlines_come_in_order_and_once():
    timers = Timers()
    timers.set("late", b"a", 20)
    timers.set("early", b"a", 10)
    assert timers.next_ms() == 10
    assert timers.take_due(15) == [("early", b"a")]
    assert timers.take_due(30) == [("late", b"a")]
    assert timers.next_ms() is None


def test_setting_again_moves_and_cancelling_forgets():
    timers = Timers()
    timers.set("x", b"", 10)
    timers.set("x", b"", 30)
    timers.set_if_absent("x", b"", 5)
    assert timers.take_due(29) == []
    timers.cancel("x", b"")
    assert timers.take_due(99) == []


def test_a_deadline_set_back_and_forth_fires_once():
    timers = Timers()
    for due in (10, 20, 10):
        timers.set("x", b"", due)
    assert timers.take_due(50) == [("x", b"")]


def test_superseded_deadlines_do_not_pile_up():
    timers = Timers()
    most = limits.DEADLINES_SHARE * limits.DEADLINES_FEW
    for number in range(10 * most):
        timers.set("x", b"", 1_000 + number)
        assert len(timers) <= most + 1
    assert timers.take_due(999 + 10 * most) == [("x", b"")]


def test_tombstones_are_bounded_in_age_and_number():
    tombs = Tombstones(age_ms_max=100, count_max=2)
    for number in range(3):
        tombs.add(bytes([number]), now_ms=number, value=number)
    assert tombs.get(b"\0", 3) is None
    assert tombs.get(b"\2", 3) == 2
    assert tombs.get(b"\2", 200) is None
    assert len(tombs) <= 2
