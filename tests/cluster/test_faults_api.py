"""`Cluster.faults`: what each fault does, and that nothing is left of it afterwards."""

from __future__ import annotations

import time

import pytest

import shoal
from shoal.cluster_utils import Cluster
from shoal.gcs_calls import ClusterCallError, GcsCalls
from shoal.util.placement_group import placement_group, remove_placement_group
from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.cluster.conftest import NAMESPACE, everything_free
from tests.cluster.drivers import run_driver
from tests.cluster.remote_code import Counter, increment
from tests.cluster.waiting import until

SHORT_S = 0.3
FOREVER = float("inf")


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        cluster.add_node(num_cpus=2)
        cluster.connect(namespace=NAMESPACE)
        yield cluster
    finally:
        cluster.shutdown()


@pytest.fixture
def node(cluster):
    yield cluster.worker_nodes[0]
    cluster.faults.clear()
    until(everything_free, "everything is free again")
    cluster.check_ledger()


def on(node: object) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node.node_id, soft=False)


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        (lambda f, n: f.delay("prepair", n, 1), "one of prepare, commit"),
        (lambda f, n: f.delay("KvService/Putt", n, 1), "it has Put, Get"),
        (lambda f, n: f.delay("prepare", "node one", 1), "node 'node one'"),
        (lambda f, n: f.delay("prepare", n, -1), "at least 0"),
        (lambda f, n: f.delay("sync", n, 1, answer=True), "no answer"),
        (lambda f, n: f.fail("sync", n), "no answer"),
        (lambda f, n: f.fail("prepare", n, 0), "at least 1"),
        (lambda f, _: f.partition("*"), "one node"),
    ],
)
def test_a_wrong_order_is_an_error_that_helps(cluster, node, order, complaint):
    with pytest.raises(ValueError, match=complaint):
        order(cluster.faults, node)


def test_what_was_met_counts_for_the_faults_that_stand(cluster, node):
    cluster.faults.delay("prepare", node, 0)
    group = placement_group([{"CPU": 1}])
    shoal.get(group.ready(), timeout=20)
    remove_placement_group(group)
    assert cluster.faults.met("prepare", node) == 1
    cluster.faults.clear()
    cluster.faults.delay("prepare", node, 0)
    assert cluster.faults.met("prepare", node) == 0
    with pytest.raises(TimeoutError, match="0 of 1 messages 'prepare'"):
        cluster.faults.wait_met("prepare", node, timeout=0)


def test_refused_prepares_are_tried_again(cluster, node):
    cluster.faults.fail("prepare", node, 2)
    group = placement_group([{"CPU": 1}] * 2)
    shoal.get(group.ready(), timeout=20)
    assert cluster.faults.met("prepare", node) == 2
    remove_placement_group(group)


@pytest.mark.parametrize("kind", ["cancel", "return_bundles", "commit"])
def test_a_group_ends_although_an_order_failed(cluster, node, kind):
    cluster.faults.fail(kind, node, 1)
    if kind == "cancel":
        # Ordered before there is a group: one that is created already is returned, not cancelled.
        cluster.faults.delay("prepare", node, FOREVER)
    group = placement_group([{"CPU": 1}])
    if kind == "cancel":
        cluster.faults.wait_met("prepare", node)
    else:
        shoal.get(group.ready(), timeout=20)
    remove_placement_group(group)
    cluster.faults.wait_met(kind, node)
    if kind == "cancel":
        # Its failure was the only one ordered: the next cancel frees the node.
        until(everything_free, "everything is free again")


def test_a_lost_prepare_holds_the_group_until_it_is_removed(cluster, node):
    cluster.faults.drop("prepare", node)
    group = placement_group([{"CPU": 1}])
    cluster.faults.wait_met("prepare", node)
    assert not group.wait(SHORT_S)
    remove_placement_group(group)
    cluster.faults.clear()
    following = placement_group([{"CPU": 2}])
    shoal.get(following.ready(), timeout=20)
    remove_placement_group(following)


@pytest.mark.parametrize("answer", [False, True])
def test_a_lease_is_late_or_refused_and_the_task_runs(cluster, node, answer):
    cluster.faults.delay("lease_request", node, SHORT_S, answer=answer)
    started = time.monotonic()
    task = increment.options(scheduling_strategy=on(node)).remote(1)
    assert shoal.get(task, timeout=20) == 2
    assert time.monotonic() - started >= SHORT_S
    cluster.faults.clear()
    until(everything_free, "the lease went back")
    cluster.faults.fail("lease_request", node, 2)
    assert shoal.get(increment.options(scheduling_strategy=on(node)).remote(2), timeout=20) == 3
    assert cluster.faults.met("lease_request", node) == 2


def test_creations_of_actors_are_late_or_fail(cluster, node):
    cluster.faults.delay("actor_create", node, SHORT_S)
    started = time.monotonic()
    owned = Counter.options(scheduling_strategy=on(node)).remote(1)
    detached = Counter.options(
        scheduling_strategy=on(node), lifetime="detached", name="late"
    ).remote(2)
    assert shoal.get([owned.add.remote(), detached.add.remote()], timeout=20) == [2, 3]
    assert time.monotonic() - started >= SHORT_S
    for actor in (owned, detached):
        shoal.kill(actor)
    cluster.faults.clear()
    cluster.faults.fail("actor_create", node, 1)
    doomed = Counter.options(scheduling_strategy=on(node)).remote()
    with pytest.raises(shoal.exceptions.RayActorError, match="let the creation fail"):
        shoal.get(doomed.add.remote(), timeout=20)


def test_any_method_of_a_service_can_be_late_or_fail(cluster, node):
    with GcsCalls(cluster.gcs_address, timeout_s=20) as gcs:
        cluster.faults.delay("NodeService/GetClusterInfo", "*", SHORT_S)
        started = time.monotonic()
        gcs.cluster_info()
        assert time.monotonic() - started >= SHORT_S
        cluster.faults.clear()
        cluster.faults.fail("NodeService/GetClusterInfo", "gcs", 1)
        with pytest.raises(ClusterCallError):
            gcs.cluster_info()
        assert gcs.cluster_info().cluster_id


def test_a_short_partition_loses_nothing(cluster, node):
    actor = Counter.options(scheduling_strategy=on(node)).remote()
    assert shoal.get(actor.add.remote(), timeout=20) == 1
    cluster.faults.partition(node)
    answers = [actor.add.remote() for _ in range(3)]
    late = increment.options(scheduling_strategy=on(node)).remote(1)
    assert shoal.wait([*answers, late], timeout=SHORT_S)[0] == []
    cluster.faults.heal(node)
    assert shoal.get(answers, timeout=20) == [2, 3, 4]
    assert shoal.get(late, timeout=20) == 2
    shoal.kill(actor)


def test_faults_outlive_the_gcs(cluster, node):
    cluster.faults.fail("prepare", node, 1)
    cluster.kill_gcs()
    cluster.start_gcs()
    group = placement_group([{"CPU": 1}])
    shoal.get(group.ready(), timeout=20)
    assert cluster.faults.met("prepare", node) == 1
    remove_placement_group(group)


def test_no_process_outside_a_test_cluster_has_faults_whatever_a_peer_says(tmp_path):
    (tmp_path / "generation").write_bytes(b"\1" * 8)
    variables = {"SHOAL_FAULTS_DIR": str(tmp_path)}
    (tmp_path / "book.json").write_text('{"rules": [], "cut": ["*"]}')
    done = run_driver(
        f"""
        import shoal
        shoal.init(num_cpus=1, runtime_env={{"env_vars": {variables!r}}})
        @shoal.remote
        def ordered():
            import os
            from cluster_common.transport import faults
            return os.environ["SHOAL_FAULTS_DIR"], faults.active() is None
        print(*shoal.get(ordered.remote()))
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path), "True"]
