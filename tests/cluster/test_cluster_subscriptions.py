"""Node changes reach workers through their agent: the GCS has O(nodes) subscriptions."""

from __future__ import annotations

import shoal
from shoal.gcs_calls import GcsCalls
from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import until

NODES = 3
WORKERS = 24


def subscriptions(cluster):
    with GcsCalls(cluster.gcs_address) as gcs:
        return gcs.status().counters["subscriptions.node_changes"]


def test_workers_and_drivers_add_no_subscription_to_node_changes(make_cluster):
    cluster = make_cluster(num_cpus=4)
    for _ in range(NODES - 1):
        cluster.add_node(num_cpus=4)
    until(lambda: subscriptions(cluster) == NODES, "one subscription a node")
    workers = [Counter.options(num_cpus=0).remote() for _ in range(WORKERS)]
    pids = set(shoal.get([worker.pid.remote() for worker in workers]))
    assert len(pids) == WORKERS
    assert subscriptions(cluster) == NODES
    # They hear of it nevertheless: what ran on a node that dies fails, and is restarted elsewhere.
    node = cluster.worker_nodes[-1]
    held = Counter.options(
        num_cpus=1,
        max_restarts=1,
        max_task_retries=-1,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=True),
    ).remote()
    pid = shoal.get(held.pid.remote())
    node.kill()
    until(lambda: shoal.get(held.pid.remote()) != pid, "the actor runs elsewhere")
    until(lambda: subscriptions(cluster) == NODES - 1, "the dead node's subscription is gone")
