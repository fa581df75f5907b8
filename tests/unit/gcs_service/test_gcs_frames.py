"""Frames put together from encoded parts are those that protobuf would have made."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.core.wire_bytes import bytes_tag, number_tag, varint
from gcs_service.shell.framed import framed
from tests.nonsense import Nonsense

EDGES = [0, 1, 127, 128, 16_383, 16_384, (1 << 32) - 1, 1 << 32, (1 << 62) - 1]


@pytest.mark.parametrize("number", EDGES)
def test_numbers_at_the_edges_of_their_lengths(number):
    expected = ns.Ping(nonce=number).SerializeToString()
    assert (number_tag(1) + varint(number) if number else b"") == expected


@given(st.integers(0, (1 << 63) - 1))
def test_any_number(number):
    field = auto.ClusterNodeState.IDLE_DURATION_MS_FIELD_NUMBER
    state = auto.ClusterNodeState.FromString(number_tag(field) + varint(number))
    assert state.idle_duration_ms == number


@given(st.text(), st.integers(1, 2_000))
def test_a_string_of_any_length(text, times):
    text = text * times
    field = ns.Refused.DESCRIPTOR.fields_by_name["message"].number
    encoded = text.encode()
    refused = ns.Refused.FromString(bytes_tag(field) + varint(len(encoded)) + encoded)
    assert refused.message == text


def test_a_frame_is_the_concatenation_of_its_items():
    items = [
        ns.GcsItem(),
        ns.GcsItem(node_id=b"n" * 16, ping=ns.Ping(nonce=7)),
        ns.GcsItem(owners_died=ns.OwnersDied(owner_ids=[b"o" * 16] * 500)),
        ns.GcsItem(refused=ns.Refused(message="x" * 20_000)),
    ]
    whole = ns.GcsFrame(items=items).SerializeToString()
    assert b"".join(framed(item) for item in items) == whole


def test_random_items_read_back_as_they_were():
    dice = Nonsense(random.Random(5))
    items = [dice.fill(ns.GcsItem()) for _ in range(200)]
    frame = ns.GcsFrame.FromString(b"".join(framed(item) for item in items))
    assert list(frame.items) == items


def test_what_goes_to_other_streams_stays_a_message():
    answer = g.WatchNodesResponse(revision=3)
    assert framed(answer) is answer
