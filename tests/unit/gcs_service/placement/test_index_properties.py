"""The incremental index equals one computed from scratch; choices equal those of brute force."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_common.labels import parse_selector
from gcs_service.core.placement import limits
from gcs_service.core.placement.amounts import AmountsTable
from gcs_service.core.placement.availability_index import AvailabilityIndex
from gcs_service.core.placement.choose import choose
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Plan, Wanted
from gcs_service.core.placement.request import parse_request
from gcs_service.core.placement.room_class import RoomClasses
from tests.unit.gcs_service.placement.placement_world import (
    PACK,
    SPREAD,
    STRICT_PACK,
    STRICT_SPREAD,
    make_spec,
)

QUIET = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
SELECTORS = [
    parse_selector(terms)
    for terms in ({}, {"kind": "k0"}, {"kind": "!k0"}, {"kind": "in(k0,k1,k0)"}, {"rack": "r1"})
]
UNIT = 10_000


class Rooms:
    """Nodes with free-form room, in an index and as plain data."""

    def __init__(self):
        self.classes = RoomClasses()
        self.table = AmountsTable()
        self.index = AvailabilityIndex()
        self.nodes: list[NodeRoom] = []
        self.free: dict[NodeRoom, dict[str, int]] = {}

    def add(self, cpu, gpu, number):
        node = NodeRoom(len(self.nodes).to_bytes(16, "big"), len(self.nodes), self.classes)
        node.labels = {"rack": f"r{number % 3}", "kind": f"k{number // 3 % 3}"}
        if number % 11 == 0:
            del node.labels["rack"]
        self.nodes.append(node)
        self.put(node, cpu, gpu)

    def put(self, node, cpu, gpu):
        room = {"CPU": cpu * UNIT, "GPU": gpu * UNIT}
        self.free[node] = {name: amount for name, amount in room.items() if amount}
        self.index.put(node, self.classes.intern(room))

    def drop(self, node):
        self.free.pop(node, None)
        self.index.drop(node)

    def amounts(self, cpu, gpu):
        return self.table.intern({"CPU": cpu * UNIT, "GPU": gpu * UNIT})

    def check(self):
        index = self.index
        assert list(index.nodes()) == [node for node in index.nodes() if node in self.free]
        assert len(index) == len(self.free)
        for selector in SELECTORS:
            pool = index.pool(selector)
            inside = {node for node in self.free if pool.accepts(node)}
            found = {node for nodes in pool.members.values() for node in nodes}
            assert found == inside
            assert pool.size == len(inside)
            for room, nodes in pool.members.items():
                assert nodes
                assert all(room.room == self.free[node] for node in nodes)
            for amounts in (self.amounts(1, 0), self.amounts(2, 1)):
                self._check_shape(pool, amounts, inside)

    def _check_shape(self, pool, amounts, inside):
        ranked = list(pool.tightest_first(amounts))
        holders = {room for room in pool.members if room.capacity(amounts)}
        assert {room for _copies, room in ranked} == holders
        assert {room for _copies, room in pool.roomiest_first(amounts)} == {r for _c, r in ranked}
        for key in (("rack",), ("kind", "rack")):
            table = pool.table(key)
            for by_slots in (False, True):
                fits = table.fits_of(amounts, by_slots=by_slots)
                expected: dict[tuple[str, ...], int] = {}
                for node in inside:
                    if all(label in node.labels for label in key):
                        copies = self.index.class_of(node).capacity(amounts)
                        value = tuple(node.labels[label] for label in key)
                        worth = copies if by_slots else min(copies, 1)
                        expected[value] = expected.get(value, 0) + worth
                expected = {value: score for value, score in expected.items() if score}
                assert fits.score == expected
                assert {v: s for s, bucket in fits.buckets.items() for v in bucket} == expected


nodes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 98)), max_size=7)
moves = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 4), st.integers(0, 2), st.booleans()), max_size=25
)


@QUIET
@given(nodes, moves)
def test_the_index_follows_every_change(first, changes):
    rooms = Rooms()
    for cpu, gpu, number in first:
        rooms.add(cpu, gpu, number)
    rooms.check()
    for which, cpu, gpu, gone in changes:
        if not rooms.nodes:
            break
        node = rooms.nodes[which % len(rooms.nodes)]
        if gone:
            rooms.drop(node)
        else:
            rooms.put(node, cpu, gpu)
        rooms.check()


@QUIET
@given(nodes, moves)
def test_forgotten_indexes_and_interned_vectors_come_back_right(first, changes):
    kept = limits.POOLS_MAX, limits.POOL_SHAPES_MAX
    from gcs_service.core.placement import amounts, availability_index, pool, room_class

    saved = (
        availability_index.POOLS_MAX,
        pool.POOL_SHAPES_MAX,
        room_class.ROOM_CLASSES_MAX,
        room_class.CLASS_MEMO_MAX,
        amounts.AMOUNTS_MAX,
    )
    availability_index.POOLS_MAX = 2
    pool.POOL_SHAPES_MAX = 1
    room_class.ROOM_CLASSES_MAX = 3
    room_class.CLASS_MEMO_MAX = 1
    amounts.AMOUNTS_MAX = 1
    try:
        test_the_index_follows_every_change.hypothesis.inner_test(first, changes)
    finally:
        (
            availability_index.POOLS_MAX,
            pool.POOL_SHAPES_MAX,
            room_class.ROOM_CLASSES_MAX,
            room_class.CLASS_MEMO_MAX,
            amounts.AMOUNTS_MAX,
        ) = saved
    assert kept == (limits.POOLS_MAX, limits.POOL_SHAPES_MAX)


bundles = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=4
)


def brute_force(rooms, shapes, strategy, *, racked):
    """Whether any assignment obeys the rules."""
    usable = list(rooms.free)
    for assignment in itertools.product(usable, repeat=len(shapes)):
        if strategy == STRICT_SPREAD and len(set(assignment)) < len(assignment):
            continue
        if strategy == STRICT_PACK and len(set(assignment)) > 1:
            continue
        if racked:
            racks = {node.labels.get("rack") for node in assignment}
            if len(racks) > 1 or None in racks:
                continue
        if obeys(rooms, shapes, assignment):
            return True
    return False


def obeys(rooms, shapes, assignment):
    left = {node: dict(rooms.free[node]) for node in assignment}
    for shape, node in zip(shapes, assignment, strict=True):
        if not all(term.matches(node.labels) for term in shape.selector):
            return False
        for name, amount in shape.amounts.items:
            left[node][name] = left[node].get(name, 0) - amount
            if left[node][name] < 0:
                return False
    return True


@QUIET
@given(nodes, bundles, st.sampled_from([PACK, SPREAD, STRICT_PACK, STRICT_SPREAD]), st.booleans())
def test_a_plan_obeys_the_rules_and_small_groups_are_never_missed(first, wanted, strategy, racked):
    rooms = Rooms()
    for cpu, gpu, number in first:
        rooms.add(cpu, gpu, number)
    expressions = [{}, {"kind": "k0"}, {"kind": "!k0"}, {}, {"rack": "r1"}]
    spec = make_spec(
        1,
        [{"CPU": cpu, "GPU": gpu} if cpu or gpu else {"CPU": 1} for cpu, gpu, _s in wanted],
        strategy,
        selectors=[expressions[selector] for _c, _g, selector in wanted],
        topology=[("rack", STRICT_PACK)] if racked else [],
    )
    try:
        request = parse_request(spec, rooms.table)
    except ValueError:
        return
    result = choose(rooms.index, rooms.table, Wanted(request, tuple(range(len(wanted)))))
    possible = brute_force(rooms, request.shapes, strategy, racked=racked)
    if isinstance(result, Plan):
        assert obeys(rooms, request.shapes, result.nodes)
        assert possible
        assert strategy != STRICT_SPREAD or len(set(result.nodes)) == len(result.nodes)
        assert strategy != STRICT_PACK or len(set(result.nodes)) == 1
        if racked:
            assert {node.labels["rack"] for node in result.nodes} == set(result.domain)
    else:
        assert not possible
