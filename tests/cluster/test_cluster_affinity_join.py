"""Work bound to a node that joined this moment: the scheduler may not have its view yet."""

from __future__ import annotations

import pytest

import shoal
from shoal.exceptions import TaskUnschedulableError
from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.cluster.waiting import until

NODES = 5
TASKS_EACH = 20


@shoal.remote(num_cpus=1)
def where() -> str:
    return shoal.get_runtime_context().get_node_id()


def test_work_bound_to_a_node_that_just_joined_runs_there(make_cluster):
    cluster = make_cluster(num_cpus=1)
    for _ in range(NODES):
        node = cluster.add_node(wait=True, num_cpus=2).node_id
        asked = [
            where.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=number % 2 == 1)
            ).remote()
            for number in range(TASKS_EACH)
        ]
        assert set(shoal.get(asked, timeout=30)) == {node}
    until(
        lambda: shoal.available_resources() == shoal.cluster_resources(),
        "every resource is free at the end",
    )
    cluster.check_ledger()


def test_work_bound_to_a_dead_node_is_refused_or_goes_elsewhere(make_cluster):
    cluster = make_cluster(num_cpus=1)
    node = cluster.add_node(wait=True, num_cpus=1)
    cluster.remove_node(node, allow_graceful=False)
    hard, soft = (
        where.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=soft)
        ).remote()
        for soft in (False, True)
    )
    with pytest.raises(TaskUnschedulableError, match="is not in the cluster"):
        shoal.get(hard, timeout=30)
    assert shoal.get(soft, timeout=30) == cluster.head_node.node_id
