"""Verdicts: broken streams, silent streams, and a checker that is late itself."""

from __future__ import annotations

from gcs_service import limits
from gcs_service.core.liveness import Liveness, LivenessVerdict

NODE = b"n" * 16


def pings(verdicts):
    return [verdict.ping_nonce is not None for verdict in verdicts]


def run_until_verdict(liveness, now_ms):
    """Follows the deadlines; (time, pings sent) when silence is to be confirmed."""
    sent = 0
    for _ in range(100):
        now_ms = liveness.next_deadline_ms()
        for verdict in liveness.due(now_ms):
            if verdict.ping_nonce is None:
                return now_ms, sent
            sent += 1
    raise AssertionError("no verdict")


def test_a_node_that_speaks_is_never_pinged():
    liveness = Liveness()
    liveness.connected(NODE, 0)
    for now_ms in range(0, 10 * limits.PING_INTERVAL_MS, 1_000):
        liveness.heard(NODE, now_ms)
        assert liveness.due(now_ms) == []


def test_a_silent_node_gets_two_pings_and_a_closer_third_before_the_verdict():
    liveness = Liveness()
    liveness.connected(NODE, 0)
    now_ms, sent = run_until_verdict(liveness, 0)
    assert sent == limits.PINGS_MISSED_MAX
    assert now_ms == 2 * limits.PING_INTERVAL_MS + 2 * limits.PING_LAST_INTERVAL_MS
    assert liveness.silence_confirmed(NODE, now_ms)


def test_one_answer_starts_the_count_again():
    liveness = Liveness()
    liveness.connected(NODE, 0)
    first = limits.PING_INTERVAL_MS
    assert pings(liveness.due(first)) == [True]
    liveness.heard(NODE, first + 10)
    now_ms, sent = run_until_verdict(liveness, first)
    assert sent == limits.PINGS_MISSED_MAX
    assert now_ms > first + 2 * limits.PING_INTERVAL_MS


def test_an_answer_that_arrives_while_silence_is_confirmed_saves_the_node():
    liveness = Liveness()
    liveness.connected(NODE, 0)
    now_ms, _ = run_until_verdict(liveness, 0)
    liveness.heard(NODE, now_ms)
    assert not liveness.silence_confirmed(NODE, now_ms + 1)


def test_a_broken_stream_has_its_window_and_not_longer():
    liveness = Liveness()
    liveness.connected(NODE, 0)
    liveness.broken(NODE, 1_000)
    end = 1_000 + limits.RECONNECT_WINDOW_MS
    assert liveness.due(end - 1) == []
    assert liveness.due(end) == [LivenessVerdict(NODE, None)]
    assert liveness.silence_confirmed(NODE, end)


def test_a_node_that_resumed_is_not_judged_by_the_old_deadline():
    liveness = Liveness()
    liveness.broken(NODE, 0)
    liveness.connected(NODE, limits.RECONNECT_WINDOW_MS - 1)
    assert liveness.due(limits.RECONNECT_WINDOW_MS) == []
    assert not liveness.silence_confirmed(NODE, limits.RECONNECT_WINDOW_MS)


def test_a_late_checker_puts_every_verdict_off():
    liveness = Liveness()
    for number in range(200):
        liveness.broken(bytes([number]) * 16, 0)
    late = limits.RECONNECT_WINDOW_MS + limits.VERDICT_LAG_MS_MAX + 1
    assert liveness.due(late) == []
    assert liveness.verdicts_put_off == 200
    for number in range(200):
        liveness.connected(bytes([number]) * 16, late + 1)
    assert liveness.due(late + limits.VERDICT_LAG_MS_MAX) == []


def test_a_slow_way_through_the_loop_puts_a_verdict_off_too():
    liveness = Liveness()
    liveness.broken(NODE, 0)
    end = limits.RECONNECT_WINDOW_MS
    assert len(liveness.due(end)) == 1
    assert liveness.was_late(NODE, limits.VERDICT_LAG_MS_MAX + 1, end)
    assert not liveness.was_late(NODE, 1, end)
    assert len(liveness.due(end + limits.VERDICT_LAG_MS_MAX)) == 1


def test_after_a_restart_a_node_whose_port_answers_has_more_time():
    liveness = Liveness()
    liveness.broken(NODE, 0, reachable_ms=limits.RECONNECT_REACHABLE_MS)
    end = limits.RECONNECT_WINDOW_MS
    assert len(liveness.due(end)) == 1
    assert liveness.may_wait(NODE, end)
    assert not liveness.may_wait(NODE, limits.RECONNECT_REACHABLE_MS)


def test_the_evidence_says_how_long_it_was_silent():
    liveness = Liveness()
    liveness.connected(NODE, 0)
    now_ms, _ = run_until_verdict(liveness, 0)
    assert "3 pings in a row unanswered" in liveness.describe(NODE)
    assert liveness.last_contact(NODE, now_ms) == "last contact 70.0 s ago"
    tick_ms = limits.PING_INTERVAL_MS // limits.PING_TICKS
    rounding_ms = liveness.silence_bound_ms - now_ms - limits.VERDICT_LAG_MS_MAX
    assert 0 <= rounding_ms <= (limits.PINGS_MISSED_MAX + 1) * tick_ms


def test_pings_that_are_due_within_a_tick_leave_together():
    liveness = Liveness()
    nodes = [bytes([number]) * 16 for number in range(100)]
    for number, node_id in enumerate(nodes):
        liveness.connected(node_id, number * 2)
    moments = 0
    pinged = []
    while len(pinged) < len(nodes):
        moments += 1
        pinged += [verdict.node_id for verdict in liveness.due(liveness.next_deadline_ms())]
    assert sorted(pinged) == sorted(nodes)
    assert moments <= 2


def test_another_ping_interval_keeps_the_proportions():
    liveness = Liveness(600)
    liveness.connected(NODE, 0)
    now_ms, _ = run_until_verdict(liveness, 0)
    assert now_ms == 2 * 600 + 2 * 100


def test_a_forgotten_node_has_no_deadline():
    liveness = Liveness()
    liveness.connected(NODE, 0)
    liveness.forget(NODE)
    assert liveness.next_deadline_ms() is None
