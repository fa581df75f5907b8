"""What an actor or task in a placement group submits goes into that group, if it says so."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest

import shoal
from shoal.util import get_current_placement_group, placement_group, remove_placement_group
from shoal.util.placement_group import PlacementGroup
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy

pytestmark = pytest.mark.usefixtures("settled")


@pytest.fixture
def group(one_node):
    made = placement_group([{"CPU": 1}, {"CPU": 2}])
    assert made.wait(20)
    yield made
    remove_placement_group(made)


def own_group() -> str | None:
    group = get_current_placement_group()
    return group.id.hex() if group is not None else None


@shoal.remote
def child():
    return own_group()


@shoal.remote
def child_and_grandchild():
    return [own_group(), shoal.get(child.remote())]


@shoal.remote
class Child:
    def where(self):
        return own_group()


class Parent:
    def __init__(self):
        self.seen_first = shoal.get(child.remote())

    def first(self):
        return [self.seen_first]

    def tasks(self):
        return shoal.get([child.remote(), child.options(num_cpus=0.5).remote()])

    def nested(self):
        return shoal.get(child_and_grandchild.remote())

    def actor(self):
        return [shoal.get(Child.remote().where.remote())]

    def own_thread(self):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(shoal.get(child.remote())))
        thread.start()
        thread.join()
        return seen

    def outside(self):
        elsewhere = (
            {"scheduling_strategy": "DEFAULT"},
            {"scheduling_strategy": PlacementGroupSchedulingStrategy(None)},
            {"placement_group": None},
        )
        return shoal.get([child.options(**options).remote() for options in elsewhere])

    def captures(self):
        return shoal.get_runtime_context().should_capture_child_tasks_in_placement_group


class AsyncParent(Parent):
    async def tasks(self):
        return list(await asyncio.gather(child.remote(), child.options(num_cpus=0.5).remote()))

    async def nested(self):
        return await child_and_grandchild.remote()

    async def actor(self):
        return [await Child.remote().where.remote()]

    async def own_thread(self):
        return [await asyncio.create_task(self._task())]

    async def _task(self):
        return await child.remote()


KINDS = {
    "sync": (Parent, {}),
    "threaded": (Parent, {"max_concurrency": 2}),
    "async": (AsyncParent, {}),
    "concurrency groups": (Parent, {"concurrency_groups": {"io": 1}}),
    "detached": (Parent, {"lifetime": "detached", "name": "parent"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_actor_submits_follows_it_into_its_group(group, kind):
    class_, options = KINDS[kind]
    strategy = PlacementGroupSchedulingStrategy(group, 0, placement_group_capture_child_tasks=True)
    parent = shoal.remote(class_).options(scheduling_strategy=strategy, **options).remote()
    inside = group.id.hex()
    for method in ("first", "tasks", "nested", "actor", "own_thread"):
        seen = shoal.get(getattr(parent, method).remote(), timeout=20)
        assert set(seen) == {inside}, method
    assert shoal.get(parent.outside.remote(), timeout=20) == [None] * 3
    assert shoal.get(parent.captures.remote())
    shoal.kill(parent)


def test_what_a_task_submits_follows_it_into_its_group(group):
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    seen = child_and_grandchild.options(scheduling_strategy=strategy).remote()
    assert shoal.get(seen, timeout=20) == [group.id.hex()] * 2


def test_children_stay_outside_unless_asked(group):
    strategy = PlacementGroupSchedulingStrategy(group)
    parent = shoal.remote(Parent).options(scheduling_strategy=strategy).remote()
    assert set(shoal.get(parent.tasks.remote(), timeout=20)) == {None}
    assert not shoal.get(parent.captures.remote())


def test_a_bundle_index_needs_a_group(group):
    for options in (
        {"placement_group_bundle_index": 1},
        {"scheduling_strategy": PlacementGroupSchedulingStrategy(None, 1)},
    ):
        with pytest.raises(ValueError, match="no placement group"):
            child.options(**options).remote()
    inside = child.options(placement_group=group, placement_group_bundle_index=1).remote()
    assert shoal.get(inside, timeout=20) == group.id.hex()


def test_a_group_is_usable_by_its_id_alone(group):
    same = PlacementGroup(group.id)
    assert same == group
    strategy = PlacementGroupSchedulingStrategy(pickle.loads(pickle.dumps(same)), 1)
    assert shoal.get(child.options(scheduling_strategy=strategy).remote(), timeout=20)
    assert (same.bundle_count, same.bundle_specs) == (2, [{"CPU": 1}, {"CPU": 2}])
    with pytest.raises(ValueError, match="no placement group"):
        _ = PlacementGroup(type(group.id).from_random()).bundle_specs
