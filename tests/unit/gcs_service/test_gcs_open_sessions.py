"""Which streams carry which nodes, against a plain model of it."""

from __future__ import annotations

import random

from gcs_service.core.open_sessions import OpenSessions

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def test_a_stream_counts_once_however_many_nodes_it_carries():
    sessions = OpenSessions()
    for node_id in (A, B):
        sessions.put(node_id, 1)
    sessions.put(C, 2)
    assert (len(sessions), sessions.streams_count) == (3, 2)
    assert sessions.sessions() == [1, 2]


def test_a_node_that_moves_leaves_its_earlier_stream():
    sessions = OpenSessions()
    sessions.put(A, 1)
    sessions.put(A, 2)
    assert (sessions.sessions(), len(sessions)) == ([2], 1)


def test_the_end_of_an_earlier_stream_does_not_concern_a_node_that_moved():
    sessions = OpenSessions()
    sessions.put(A, 1)
    sessions.put(A, 2)
    sessions.drop(A, 1)
    assert sessions.sessions() == [2]
    sessions.drop(A, 2)
    assert (sessions.sessions(), len(sessions)) == ([], 0)


def test_a_stream_of_the_origin_alone_is_left_out_and_a_shared_one_is_not():
    sessions = OpenSessions()
    sessions.put(A, 1)
    sessions.put(B, 2)
    sessions.put(C, 2)
    assert sessions.sessions_but(A) == [2]
    assert sessions.sessions_but(B) == [1, 2]
    assert sessions.sessions_but(b"x" * 16) == [1, 2]


def test_nobody_but_the_origin():
    sessions = OpenSessions()
    assert sessions.is_only(A)
    sessions.put(A, 1)
    assert sessions.is_only(A)
    assert not sessions.is_only(B)
    sessions.put(B, 1)
    assert not sessions.is_only(A)


def test_any_order_of_events_leaves_what_a_plain_table_would():
    for seed in range(20):
        dice = random.Random(seed)
        sessions, model = OpenSessions(), {}
        for _ in range(200):
            node_id, session = bytes([dice.randrange(6)]) * 16, dice.randrange(1, 4)
            match dice.randrange(3):
                case 0:
                    sessions.put(node_id, session)
                    model[node_id] = session
                case 1:
                    sessions.drop(node_id)
                    model.pop(node_id, None)
                case _:
                    sessions.drop(node_id, session)
                    if model.get(node_id) == session:
                        del model[node_id]
            others = {other for node, other in model.items() if node != node_id}
            assert len(sessions) == len(model)
            assert sorted(sessions.sessions()) == sorted(set(model.values()))
            assert sorted(sessions.sessions_but(node_id)) == sorted(others)
            assert sessions.is_only(node_id) == (not model.keys() - {node_id})
