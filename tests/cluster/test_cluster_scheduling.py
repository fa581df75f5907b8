"""Where work goes: free nodes, labels, affinity, spreading, and waiting in line."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

import shoal
from shoal.util.placement_group import (
    get_current_placement_group,
    placement_group,
    remove_placement_group,
)
from shoal.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)
from tests.cluster.conftest import everything_free
from tests.cluster.remote_code import Counter, pass_gate
from tests.cluster.waiting import until


@shoal.remote(num_cpus=1)
def where(path: str = "", marks: str = "") -> str:
    if marks:
        Path(marks, uuid4().hex).touch()
    if path:
        pass_gate(path)
    return shoal.get_runtime_context().get_node_id()


@pytest.fixture(autouse=True)
def clean(two_racks):
    yield
    until(everything_free, "all resources are free after the test")


@pytest.fixture
def marks(tmp_path):
    """A folder in which each task that started leaves a file."""
    folder = tmp_path / "started"
    folder.mkdir()
    return folder


def started(marks: Path) -> int:
    return len(list(marks.iterdir()))


def labels_of(node_id: str) -> dict[str, str]:
    return next(node["Labels"] for node in shoal.nodes() if node["NodeID"] == node_id)


def test_work_fills_every_free_cpu_of_the_cluster(gate, marks):
    running = [where.remote(gate.path, str(marks)) for _ in range(12)]
    until(lambda: started(marks) == 12, "all twelve run at once")
    waiting = where.remote()
    assert shoal.wait([waiting], timeout=0.1) == ([], [waiting])
    gate.open()
    nodes = shoal.get(running)
    assert sorted(nodes.count(node) for node in set(nodes)) == [2] * 6
    shoal.get(waiting)


def test_spread_uses_all_nodes(gate, marks):
    task = where.options(scheduling_strategy="SPREAD", num_cpus=0.5)
    running = [task.remote(gate.path, str(marks)) for _ in range(6)]
    until(lambda: started(marks) == 6, "all six run at once")
    gate.open()
    assert len(set(shoal.get(running))) == 6


def test_a_label_selector_chooses_the_node():
    for selector, wanted in (
        ({"rack": "r2", "number": "1"}, {("r2", "1")}),
        ({"rack": "!r1", "number": "in(0,2)"}, {("r2", "0"), ("r2", "2")}),
    ):
        nodes = shoal.get([where.options(label_selector=selector).remote() for _ in range(6)])
        seen = {(labels_of(node)["rack"], labels_of(node)["number"]) for node in nodes}
        assert seen <= wanted


def test_a_label_nobody_has_waits(two_racks):
    waiting = where.options(label_selector={"rack": "r9"}).remote()
    assert shoal.wait([waiting], timeout=0.1) == ([], [waiting])
    node = two_racks.add_node(num_cpus=1, labels={"rack": "r9"})
    assert shoal.get(waiting, timeout=20) == node.node_id
    two_racks.remove_node(node)
    until(lambda: shoal.cluster_resources()["CPU"] == 12, "the extra node is gone")


def test_affinity_hard_and_soft(two_racks, gate):
    node = two_racks.worker_nodes[3].node_id
    hard = where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
    running = [hard.remote(gate.path) for _ in range(2)]
    until(lambda: shoal.available_resources().get("CPU") == 10, "both run")
    third = hard.remote()
    assert shoal.wait([third], timeout=0.1) == ([], [third])
    gate.open()
    assert set(shoal.get([*running, third])) == {node}


def test_resources_of_one_node_bind_work_to_it():
    actors = [Counter.options(resources={"slot": 1}).remote() for _ in range(6)]
    assert len(set(shoal.get([actor.node.remote() for actor in actors]))) == 6
    seventh = Counter.options(resources={"slot": 1}).remote()
    answer = seventh.node.remote()
    assert shoal.wait([answer], timeout=0.1) == ([], [answer])
    shoal.kill(actors[0])
    shoal.get(answer, timeout=20)
    for actor in [*actors[1:], seventh]:
        shoal.kill(actor)


def test_child_tasks_stay_in_the_group_only_if_asked_for():
    group = placement_group([{"CPU": 1}], strategy="STRICT_PACK")
    shoal.get(group.ready())

    def parent() -> str | None:
        def look() -> str | None:
            current = get_current_placement_group()
            return current.id.hex() if current is not None else None

        return shoal.get(shoal.remote(num_cpus=0)(look).remote())

    task = shoal.remote(num_cpus=0)(parent)
    for capture, expected in ((True, group.id.hex()), (False, None)):
        strategy = PlacementGroupSchedulingStrategy(
            group, placement_group_capture_child_tasks=capture
        )
        assert shoal.get(task.options(scheduling_strategy=strategy).remote()) == expected
    remove_placement_group(group)


def test_a_scheduling_queue_is_fair_between_shapes(gate):
    """A stream of small tasks does not starve one that wants a whole node."""
    running = [where.remote(gate.path) for _ in range(12)]
    until(lambda: "CPU" not in shoal.available_resources(), "all twelve CPUs are taken")
    large = where.options(num_cpus=2).remote()
    small = [where.remote() for _ in range(200)]
    gate.open()
    shoal.get(running)
    shoal.get(large, timeout=20)
    shoal.get(small)
