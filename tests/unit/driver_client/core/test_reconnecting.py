"""When an agent is tried again, and when it is given up."""

from __future__ import annotations

from itertools import pairwise

from driver_client import limits
from driver_client.core.reconnecting import Reconnecting

CONNECT_MS = round(limits.CONNECT_TIMEOUT_S * 1_000)
RECONNECT_MS = round(limits.AGENT_RECONNECT_S * 1_000)


def test_the_delays_double_up_to_their_limit():
    tries = Reconnecting(0)
    delays = [tries.next_try_ms(0, refused=False) for _ in range(10)]
    assert delays[0] == limits.RECONNECT_DELAY_MIN_S * 1_000
    longest = limits.RECONNECT_DELAY_MAX_S * 1_000
    assert all(later == min(2 * earlier, longest) for earlier, later in pairwise(delays))


def test_an_agent_that_never_answered_is_given_up_after_the_time_to_connect():
    tries = Reconnecting(7)
    assert tries.next_try_ms(7 + CONNECT_MS - 1, refused=False) is not None
    assert tries.next_try_ms(7 + CONNECT_MS, refused=False) is None
    assert not tries.is_refused


def test_a_session_that_broke_has_its_own_time_and_starts_with_short_delays():
    tries = Reconnecting(0)
    for _ in range(5):
        tries.next_try_ms(0, refused=False)
    tries.welcome_broke(50_000)
    assert tries.next_try_ms(50_000, refused=False) == limits.RECONNECT_DELAY_MIN_S * 1_000
    assert tries.next_try_ms(50_000 + RECONNECT_MS, refused=False) is None


def test_two_refusals_in_a_row_are_the_end_one_is_not():
    tries = Reconnecting(0)
    assert tries.next_try_ms(0, refused=True) is not None
    assert tries.next_try_ms(0, refused=False) is not None
    assert tries.next_try_ms(0, refused=True) is not None
    assert tries.next_try_ms(0, refused=True) is None
    assert tries.is_refused
