"""The order of nodes kept for a shape equals what looking at every node gives."""

from __future__ import annotations

from random import Random

import pytest

from cluster_common.resources import vector
from raylet_agent.core.node_views import NodeViews
from raylet_agent.core.room_index import ChangeLog, RoomIndex
from raylet_agent.core.shape import shape_of
from tests.unit.raylet_agent.agent_world import request, view

STEPS = 120
NODES = [bytes([65 + number]) * 16 for number in range(6)]


class First:
    """Dice that always show the first of the candidates."""

    def randrange(self, _count: int) -> int:
        return 0


def by_looking(views: NodeViews, shape, excluded):
    rows = [
        x
        for x in views.rows()
        if x.feasible(shape) and x.has_room(shape) and excluded.get(x.node_id, -1) < x.version
    ]
    plain = [x for x in rows if not x.total.get("GPU", 0)] or rows
    return min(plain, key=lambda x: (x.utilisation(), x.node_id), default=None)


@pytest.mark.parametrize("seed", range(6))
def test_the_emptiest_node_is_the_one_that_looking_finds(seed):
    dice, views = Random(seed), NodeViews()
    shape = shape_of(request(1, resources={"CPU": 2}))
    index = RoomIndex(views, shape, shape.selectors[0])
    versions = dict.fromkeys(NODES, 0)
    for number in range(STEPS):
        node = dice.choice(NODES)
        kind = dice.choice(["view", "view", "deduct", "undo", "gone"])
        if kind == "view":
            versions[node] += 1
            total = dice.choice([{"CPU": 8}, {"CPU": 1}, {"CPU": 8, "GPU": 1}])
            free = {"CPU": min(dice.randint(0, 8), total["CPU"])}
            item = view(node, version=versions[node], total=total, free=free)
            views.received(item, number)
        elif kind == "gone" and dice.random() < 0.2:
            views.lost(node)
        elif kind == "deduct" and (known := views.get(node)) is not None:
            views.deduct(known, number.to_bytes(8, "big"), vector({"CPU": 1}), number)
        elif kind == "undo" and (sent := views.deducted()):
            views.undo(dice.choice(sent))
        if dice.random() < 0.7:
            excluded = {dice.choice(NODES): dice.randint(0, 3)} if dice.random() < 0.3 else {}
            index.refresh()
            found = index.emptiest(excluded, None, First())
            assert found is by_looking(views, shape, excluded)
            assert index.is_feasible(None) == any(x.feasible(shape) for x in views.rows())


def test_round_robin_goes_on_after_the_last_one_and_begins_again():
    views = NodeViews()
    shape = shape_of(request(1, resources={"CPU": 1}))
    for node in NODES[:3]:
        views.received(view(node), 0)
    index = RoomIndex(views, shape, shape.selectors[0])
    index.refresh()
    chosen, last = [], b""
    for _ in range(4):
        found = index.next_after(last, {}, None)
        assert found is not None
        last = found.node_id
        chosen.append(last)
    assert chosen == [*NODES[:3], NODES[0]]


def test_a_reader_that_is_far_behind_is_told_so():
    log = ChangeLog()
    for number in range(30_000):
        log.add(number.to_bytes(2, "big"))
    assert log.since(0) is None
    assert log.since(log.end - 1) == [(29_999).to_bytes(2, "big")]
