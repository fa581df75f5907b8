"""The test cluster itself, with real processes."""

import pytest

from shoal.cluster_utils import Cluster
from shoal.gcs_calls import GcsCalls
from tests.cli.process_states import running

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def head():
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        yield cluster


def node_states(cluster):
    from cluster_api.v1 import types_pb2

    with GcsCalls(cluster.address) as gcs:
        return {
            node.node_id.hex(): types_pb2.NodeState.Name(node.state).removeprefix("NODE_STATE_")
            for node in gcs.nodes().nodes
        }


def test_nodes_join_with_what_they_were_given(head):
    nodes = [head.add_node(wait=False, num_cpus=2, labels={"rack": f"r{i}"}) for i in range(3)]
    head.wait_for_nodes()
    with GcsCalls(head.address) as gcs:
        found = {node.node_id.hex(): node for node in gcs.nodes(alive_only=True).nodes}
    for index, node in enumerate(nodes):
        record = found[node.node_id]
        assert record.labels["rack"] == f"r{index}"
        assert record.total.amounts["CPU"] == 20_000
        assert record.pid == node.pid
        assert record.address == node.address
    assert head.head_node not in head.worker_nodes
    head.check_ledger()
    for node in nodes:
        head.remove_node(node)
    head.wait_for_nodes()


def test_a_killed_node_is_gone_for_the_gcs(head):
    node = head.add_node()
    pid = node.pid
    node.kill()
    assert not running([pid])
    head.wait_for_nodes()
    assert node_states(head)[node.node_id] == "DEAD"
    head.remove_node(node)


def test_the_gcs_comes_back_with_the_same_address_and_nodes(head):
    address = head.gcs_address
    head.kill_gcs()
    with pytest.raises(RuntimeError, match="not running"):
        head.kill_gcs()
    head.start_gcs()
    assert head.gcs_address == address
    head.wait_for_nodes()
    head.check_ledger()


def test_a_drain_is_recorded(head):
    node = head.add_node()
    head.drain(node, reason="preemption", deadline_s=60)
    assert node_states(head)[node.node_id] in ("DRAINING", "DEAD")
    head.remove_node(node, allow_graceful=False)


@pytest.mark.parametrize(
    ("node", "reason", "said"),
    [
        ("00" * 16, "preemption", "0000"),
        ("xyz", "preemption", "not hexadecimal"),
        ("00" * 16, "boredom", "is not one of preemption, idle"),
    ],
)
def test_a_drain_of_nothing_is_refused(head, node, reason, said):
    with pytest.raises(ValueError, match=said):
        head.drain(node, reason=reason)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_cpus": -1}, "resource 'CPU'"),
        ({"num_gpus": 1.5}, "resource 'GPU'"),
        ({"resources": {"": 1}}, "resource name"),
        ({"labels": {"ra ck": "1"}}, "label 'ra ck'"),
    ],
)
def test_bad_node_options_are_refused_before_anything_starts(head, options, said):
    before = head.list_all_nodes()
    with pytest.raises(ValueError, match=said):
        head.add_node(**options)
    assert head.list_all_nodes() == before


def test_shutdown_leaves_nothing():
    cluster = Cluster(initialize_head=True)
    node = cluster.add_node()
    pids = [cluster.gcs_pid, cluster.head_node.pid, node.pid]
    folder = cluster.session.path
    cluster.shutdown()
    cluster.shutdown()
    assert not running(pids)
    assert not folder.exists()
    with pytest.raises(RuntimeError, match="was shut down"):
        cluster.add_node()
