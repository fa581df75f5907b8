"""A relay that says nothing although its connections are open: its nodes go another way."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

import shoal
from shoal.cluster_utils import Cluster, ClusterNode
from tests.cluster.conftest import NAMESPACE
from tests.cluster.remote_code import Counter
from tests.cluster.test_cluster_relay import actors_on_all, alive_ids, rack
from tests.cluster.waiting import until

PING_INTERVAL_S = 3.0
"""A node leaves a silent relay after one of these; the GCS gives it up after more than 1 1/3."""

WORK_S = 30


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0}, ping_interval_s=PING_INTERVAL_S
    )
    try:
        made.connect(namespace=NAMESPACE)
        yield made
    finally:
        made.shutdown()


SILENCES: dict[str, Callable[[Cluster, ClusterNode], None]] = {
    "cut off": lambda cluster, relay: cluster.faults.partition(relay),
    "hangs": lambda _cluster, relay: relay.send(signal.SIGSTOP),
}


@pytest.mark.parametrize("silence", SILENCES.values(), ids=SILENCES)
def test_nodes_leave_a_silent_relay_before_they_are_given_up(
    cluster: Cluster, silence: Callable[[Cluster, ClusterNode], None]
) -> None:
    relay, nodes = rack(cluster)
    actors = actors_on_all()
    pids = shoal.get([actor.pid.remote() for actor in actors], timeout=WORK_S)
    silence(cluster, relay)
    ids = {node.node_id for node in (cluster.head_node, *nodes)}
    until(lambda: alive_ids() == ids, "the relay is given up, and its nodes are not")
    assert shoal.get([actor.pid.remote() for actor in actors], timeout=WORK_S) == pids
    fresh = Counter.options(num_cpus=1).remote()
    assert shoal.get(fresh.add.remote(), timeout=WORK_S) == 1
