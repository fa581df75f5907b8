from __future__ import annotations

import pytest

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service.core.placement.amounts import AmountsTable
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.room_class import RoomClasses

TABLE = AmountsTable()


def amounts(**vector):
    return TABLE.intern(vector)


def report(node, version, applied=0, devices=None, **free):
    snapshot = ns.ResourceSnapshot(
        version=version,
        total=t.ResourceSet(amounts={"CPU": 10}),
        available=t.ResourceSet(amounts=free),
        applied_reservations=applied,
    )
    for name, shares in (devices or {}).items():
        snapshot.devices[name].free.extend(shares)
    return node.report(snapshot)


@pytest.fixture
def node():
    made = NodeRoom(b"n", 1, RoomClasses())
    made.begin_session("a", {})
    report(made, 1, CPU=10)
    return made


def test_a_reservation_counts_until_a_snapshot_covers_it(node):
    first = node.reserve(amounts(CPU=4))
    second = node.reserve(amounts(CPU=3))
    assert (first, second, node.room_class.room) == (1, 2, {"CPU": 3})
    report(node, 2, applied=0, CPU=10)
    assert node.room_class.room == {"CPU": 3}
    report(node, 3, applied=1, CPU=6)
    assert node.room_class.room == {"CPU": 3}
    report(node, 4, applied=2, CPU=3)
    assert node.room_class.room == {"CPU": 3}
    assert not node.reservations


def test_reports_that_come_late_or_twice_change_nothing(node):
    node.reserve(amounts(CPU=4))
    assert report(node, 5, applied=1, CPU=6)
    assert not report(node, 5, applied=1, CPU=9)
    assert not report(node, 2, applied=0, CPU=10)
    assert node.room_class.room == {"CPU": 6}


def test_room_that_came_back_counts_from_the_answer_on_and_never_twice(node):
    node.reserve(amounts(CPU=4))
    undo = node.will_give_back(amounts(CPU=4))
    assert node.room_class.room == {"CPU": 6}
    node.gave_back(undo)
    assert node.room_class.room == {"CPU": 10}
    node.gave_back(undo)
    report(node, 2, applied=1, CPU=6)  # taken, not yet given back
    assert node.room_class.room == {"CPU": 10}
    report(node, 3, applied=2, CPU=10)
    assert node.room_class.room == {"CPU": 10}


def test_a_refused_reservation_never_was(node):
    number = node.reserve(amounts(CPU=4))
    node.refused(number)
    node.refused(number)
    assert node.room_class.room == {"CPU": 10}


def test_room_below_zero_is_kept_until_it_is_explained(node):
    number = node.reserve(amounts(CPU=8))
    report(node, 2, applied=0, CPU=5)  # the agent leased 5 meanwhile
    assert node.room_class.room == {"CPU": -3}
    assert node.room_class.capacity(amounts(CPU=1)) == 0
    node.refused(number)
    assert node.room_class.room == {"CPU": 5}


def test_reserving_what_is_not_there_is_our_own_mistake(node):
    with pytest.raises(AssertionError, match=r"not \{'CPU': 11\}"):
        node.reserve(amounts(CPU=11))


def test_names_that_bundles_make_are_no_room(node):
    report(node, 2, CPU=10, CPU_group_0_ab=3, bundle_group_ab=1000)
    assert node.room_class.room == {"CPU": 10}


def test_devices_fit_singly(node):
    report(node, 2, devices={"GPU": [10_000, 5_000, 5_000]}, CPU=10, GPU=20_000)
    room = node.room_class
    assert room.capacity(amounts(GPU=20_000)) == 0
    assert room.capacity(amounts(GPU=10_000)) == 1
    assert room.capacity(amounts(GPU=5_000)) == 4
    halves = TABLE.sum([amounts(GPU=5_000)] * 3)
    assert (halves.several_parts, room.capacity(halves)) == (True, 1)
    node.reserve(amounts(GPU=5_000))
    assert dict(node.room_class.devices)["GPU"] == (10_000, 5_000, 0)
    node.reserve(halves)
    assert node.room_class.room.get("GPU", 0) == 0
    node.gave_back(node.will_give_back(amounts(GPU=10_000)))
    assert node.room_class.capacity(amounts(GPU=10_000)) == 1


def test_sums_of_whole_devices_stay_whole():
    both = TABLE.sum([amounts(GPU=10_000), amounts(GPU=20_000, CPU=1)])
    assert both is amounts(GPU=30_000, CPU=1)
