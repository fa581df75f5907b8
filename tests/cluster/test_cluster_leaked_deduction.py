"""Room that a scheduler keeps for a request that never comes is free again in three seconds.

An owner that was sent to a node and dies on the way leaves a deduction behind. Nothing else in the
view of that node moves here: all its snapshots are swallowed (DESIGN section 8).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import shoal
from shoal.cluster_utils import Cluster, ClusterNode
from shoal.gcs_calls import agent_ledger, agent_state
from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.cluster.drivers import started_driver
from tests.cluster.remote_code import increment
from tests.cluster.waiting import until

FOREVER = float("inf")
GONE_S = 3.0
"""The bound that is promised, from the moment at which the request was sent to the node."""

SLOW_MACHINE_S = 2.0

OWNER = """
    import shoal
    shoal.init(log_to_driver=False)
    @shoal.remote(num_cpus=2, max_retries=0)
    def late():
        return "came"
    print(shoal.get(late.remote()))
"""


@pytest.fixture
def cluster(make_cluster) -> Cluster:
    return make_cluster(num_cpus=0)


@pytest.fixture
def node(cluster) -> Iterator[ClusterNode]:
    """Room for one of two requests. What is asked of it does not come there, nor its snapshots."""
    made = cluster.add_node(num_cpus=2)
    cluster.faults.drop("sync", made)
    cluster.faults.delay("lease_request", made, FOREVER)
    yield made
    cluster.check_ledger()


@shoal.remote(num_cpus=0)
class Asker:
    """An owner whose own agent is not the scheduler."""

    def ask(self) -> int:
        self.asked = increment.options(num_cpus=2).remote(7)
        return os.getpid()


End = Callable[[], object]


@contextmanager
def killed_driver(cluster: Cluster) -> Iterator[End]:
    with started_driver(OWNER, cluster.address) as owner:
        yield owner.kill


@contextmanager
def slow_driver(cluster: Cluster) -> Iterator[End]:
    """It lives on, and what it asked for comes in the end."""
    with started_driver(OWNER, cluster.address) as owner:
        yield lambda: None
        assert owner.line() == "came"


@contextmanager
def killed_worker(cluster: Cluster) -> Iterator[End]:
    """The scheduler hears of its end from the GCS."""
    there = NodeAffinitySchedulingStrategy(cluster.add_node(num_cpus=0).node_id, soft=False)
    owner = Asker.options(scheduling_strategy=there).remote()
    pid = shoal.get(owner.ask.remote(), timeout=20)
    yield lambda: os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("owner", [killed_driver, killed_worker, slow_driver])
def test_a_leaked_deduction_ends_although_nothing_moves(cluster, node, owner):
    waiting = lambda: agent_state(cluster.head_node.address).queued_leases
    sent = lambda: cluster.faults.met("lease_request", node)
    with owner(cluster) as end:
        until(sent, "the owner's request is on its way")
        task = increment.options(num_cpus=2).remote(1)
        until(lambda: waiting() or sent() == 2, "the scheduler takes the room for used")
        end()
        cluster.faults.wait_met("lease_request", node, 2, timeout=GONE_S + SLOW_MACHINE_S)
        assert waiting() == 0
        ledger = agent_ledger(node.address)
        assert ledger.available == ledger.total, "neither request came to the node"
        cluster.faults.clear()
        assert shoal.get(task, timeout=20) == 2
