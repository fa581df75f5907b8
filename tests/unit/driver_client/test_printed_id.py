"""Ids as users make, print and compare them."""

from __future__ import annotations

import pickle

import pytest

from driver_client.printed_id import ActorID, JobID, NodeID, ObjectID, TaskID, UniqueID, WorkerID

KINDS = (ActorID, JobID, NodeID, ObjectID, TaskID, UniqueID, WorkerID)


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_comes_back_from_its_text_and_from_a_pickle(kind):
    made = kind.from_random()
    assert kind.from_hex(made.hex()) == made == pickle.loads(pickle.dumps(made))
    assert len(made.binary()) == kind.size()
    assert repr(made) == f"{kind.__name__}({made.hex()})"
    assert not made.is_nil()
    assert kind.nil().is_nil()
    assert {made: 1}[kind(made.binary())] == 1


def test_ids_of_different_kinds_are_different():
    value = b"v" * TaskID.size()
    assert TaskID(value) != ActorID(value)


def test_a_text_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="NodeID"):
        NodeID.from_hex("abcd")


def test_a_job_has_a_number():
    assert JobID.from_int(7).int() == 7
