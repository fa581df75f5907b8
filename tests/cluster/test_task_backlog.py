"""Every queued task is demand, though few lease requests are open (FIELD_REPORTS O-23)."""

from __future__ import annotations

import json

import pytest

import shoal
from shoal.util.autoscaler import cluster_resource_state
from tests.cluster.demand_reading import (
    DEADLINE_S,
    Reader,
    autoscaler,
    of_type,
    run_status,
    until_split,
)
from tests.cluster.remote_code import gated
from tests.cluster.waiting import until

QUEUED = 10_000


@pytest.fixture
def head(make_cluster):
    return make_cluster(num_cpus=2)


@shoal.remote(num_cpus=0, resources={"edge": 1})
def hold_many(gate: str, count: int) -> int:
    return len(shoal.get(hold(gate, count)))


def hold(gate: str, count: int) -> list[shoal.ObjectRef]:
    task = gated.options(resources={"slot": 1})
    return [task.remote(gate, number) for number in range(count)]


def test_all_queued_tasks_are_demand_and_add_up_while_some_begin_to_run(head, gate):
    tasks = hold(gate.path, QUEUED)
    until_split("slot", QUEUED, 0)
    rows = [row for row in json.loads(run_status(head))["demand"] if "slot" in row["resources"]]
    assert [(row["count"], row["infeasible"]) for row in rows] == [(QUEUED, True)]
    with Reader(QUEUED, "slot") as reader:
        for nodes in (1, 2):
            head.add_node(num_cpus=1, resources={"slot": 4}, wait=False)
            until_split("slot", QUEUED - 4 * nodes, 4 * nodes)
    assert reader.wrong == []
    for task in tasks[-100:]:
        shoal.cancel(task)
    until_split("slot", QUEUED - 108, 8)
    gate.open()
    assert shoal.get(tasks[:-100], timeout=DEADLINE_S) == list(range(QUEUED - 100))
    until_split("slot", 0, 0)


def test_the_last_tasks_are_counted_one_by_one(head, gate):
    """Fewer tasks than open requests: requests that nobody needs are withdrawn."""
    tasks = hold(gate.path, 12)
    until_split("slot", 12, 0)
    for task in tasks[:9]:
        shoal.cancel(task)
    until_split("slot", 3, 0)
    head.add_node(num_cpus=1, resources={"slot": 1})
    until_split("slot", 2, 1)
    gate.open()
    assert shoal.get(tasks[9:], timeout=DEADLINE_S) == [9, 10, 11]
    until_split("slot", 0, 0)


def test_tasks_queued_by_a_task_on_another_node_are_demand_too(head, gate):
    """Its home agent keeps no requests waiting: they wait with the head's, and so does the rest."""
    head.add_node(num_cpus=1, resources={"edge": 1})
    parent = hold_many.remote(gate.path, 1_000)
    until_split("slot", 1_000, 0)
    with Reader(1_000, "slot") as reader:
        head.add_node(num_cpus=1, resources={"slot": 4}, wait=False)
        until_split("slot", 996, 4)
    assert reader.wrong == []
    shoal.cancel(parent, force=True)
    until_split("slot", 0, 0)


def test_nodes_are_bought_for_all_queued_tasks_at_once_within_the_maximum(head, gate, tmp_path):
    wide = {"resources": {"CPU": 1, "slot": 17}, "max_nodes": 2}
    tasks = hold(gate.path, QUEUED)
    until_split("slot", QUEUED, 0)
    with autoscaler(head, tmp_path, idle_timeout_s=1, node_types={"wide": wide}) as log:
        with Reader(QUEUED, "slot", "wide") as reader:
            until_split("slot", QUEUED - 34, 34)
        assert (reader.wrong, reader.most_nodes) == ([], 2)
        launches = [line for line in log.read_text().splitlines() if "launching" in line]
        assert [json.loads(line)["count"] for line in launches] == [2]
        gate.open()
        assert shoal.get(tasks, timeout=DEADLINE_S) == list(range(QUEUED))
        until(lambda: of_type(cluster_resource_state(), "wide") == 0, "idle nodes go", DEADLINE_S)
