"""FIELD_REPORTS O-15: agents of an old cluster find a new one at the same address."""

from __future__ import annotations

import pytest

import shoal
from shoal.cluster_utils import Cluster
from shoal.exceptions import PlacementGroupRemovedError, RayError, RaySystemError
from shoal.util import kv
from shoal.util.placement_group import placement_group
from tests.cluster.conftest import NAMESPACE
from tests.cluster.fates import NOWHERE
from tests.cluster.remote_code import Counter, gated, increment
from tests.cluster.waiting import until, until_gone

REFUSED_STATUS = 3


@pytest.fixture
def cluster():
    # Kept in memory only: a GCS that starts again has forgotten everything.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1}, storage="memory")
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()


def test_old_agents_are_refused_in_one_line_and_stop_their_workers(cluster):
    cluster.connect(namespace=NAMESPACE)
    actors = [Counter.remote() for _ in range(3)]
    pids = shoal.get([actor.pid.remote() for actor in actors])
    old = cluster.list_all_nodes()
    cluster.kill_gcs()
    cluster.start_gcs()
    until_gone([*pids, *(node.pid for node in old)])
    for node in old:
        status = node.wait().exit_status
        assert until(status, "the launcher reports the end of the agent") == REFUSED_STATUS
    logs = [path.read_text() for path in cluster.session.logs.glob("agent-*.err")]
    refusals = [line for log in logs for line in log.splitlines() if "refused_by_cluster" in line]
    assert len(refusals) == len(old)
    assert all("other_cluster" in line and "this is cluster" in line for line in refusals)
    shoal.shutdown()
    for node in old:
        cluster.remove_node(node)
    new = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.connect(namespace=NAMESPACE)
    assert {node["NodeID"] for node in shoal.nodes()} == {node.node_id for node in new}
    fresh = [Counter.options(num_cpus=1).remote() for _ in range(2)]
    answers = shoal.get([actor.node.remote() for actor in fresh], timeout=20)
    assert set(answers) == {node.node_id for node in new}
    for actor in fresh:
        shoal.kill(actor)
    assert shoal.get(increment.remote(1), timeout=20) == 2


def test_a_driver_of_the_old_cluster_hears_so_and_the_new_one_never_hears_of_it(cluster, gate):
    cluster.connect(namespace=NAMESPACE)
    counter = Counter.remote()
    detached = Counter.options(name="old", lifetime="detached").remote()
    shoal.get([counter.pid.remote(), detached.pid.remote()], timeout=20)
    kv.put("old", "1")
    group = placement_group([NOWHERE])
    waiting = [
        gated.options(max_retries=-1).remote(gate.path),
        increment.options(resources=NOWHERE).remote(1),
        counter.gated.remote(gate.path),
        detached.gated.remote(gate.path),
    ]
    assert shoal.wait([group.ready()], timeout=0.2)[0] == []
    old = cluster.list_all_nodes()
    cluster.kill_gcs()
    cluster.start_gcs()
    for reference in waiting:
        with pytest.raises(RayError):
            shoal.get(reference, timeout=20)
    with pytest.raises(PlacementGroupRemovedError):
        shoal.get(group.ready(), timeout=20)
    for ask in (
        lambda: kv.put("new", "2"),
        lambda: kv.get("old"),
        shoal.nodes,
        lambda: shoal.get_actor("old"),
        lambda: shoal.get(increment.remote(1), timeout=20),
    ):
        with pytest.raises(RaySystemError, match="the cluster of this process is gone"):
            ask()
    with pytest.raises(PlacementGroupRemovedError):
        shoal.get(placement_group([{"CPU": 1}]).ready(), timeout=20)
    shoal.shutdown()
    for node in old:
        cluster.remove_node(node)
    cluster.add_node(num_cpus=1)
    cluster.connect(namespace=NAMESPACE)
    assert kv.keys() == []
    assert shoal.get(increment.remote(1), timeout=20) == 2
