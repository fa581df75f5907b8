"""A driver whose own agent dies goes on with another one."""

from __future__ import annotations

import pytest

import shoal
from shoal.cluster_utils import Cluster
from tests.cluster.waiting import until

pytestmark = pytest.mark.cluster


@shoal.remote
def where() -> str:
    return shoal.get_runtime_context().get_node_id()


@shoal.remote(num_cpus=2)
class Elsewhere:
    def node(self) -> str:
        return shoal.get_runtime_context().get_node_id()


def test_a_driver_survives_the_death_of_its_home_agent():
    """Its actors on other nodes never notice, waiting and new tasks run elsewhere."""
    with Cluster() as cluster:
        head = cluster.add_node(num_cpus=1)
        others = [cluster.add_node(num_cpus=2, scheduler=True) for _ in range(2)]
        cluster.wait_for_nodes()
        cluster.connect()
        nodes = {node.node_id: node for node in [head, *others]}
        home = shoal.get_runtime_context().get_node_id()
        actor = Elsewhere.remote()
        place = shoal.get(actor.node.remote(), timeout=20)
        if place == home:
            pytest.fail("the actor needs two CPUs, which the home node has not")
        nodes[home].kill()
        assert shoal.get(actor.node.remote(), timeout=20) == place
        ran = set(shoal.get([where.remote() for _ in range(8)], timeout=30))
        assert home not in ran
        until(
            lambda: shoal.get_runtime_context().get_node_id() != home, "the driver has a new home"
        )
