"""Nobody hears that a process owns something before the agent that answers for its life knows it.

Else, if the owner is killed at once, no agent tells the GCS, and what it owned is listed for ever.
The agent's welcome to an owner is held back here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

import shoal
from shoal.cluster_utils import Cluster, ClusterNode
from shoal.exceptions import ActorDiedError
from shoal.gcs_calls import GcsCalls
from shoal.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.cluster.conftest import NAMESPACE, everything_free
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import lives_on, until

FOREVER = float("inf")
WINDOW_S = 0.3
SESSION = "AgentService/LeaseSession"
REGISTER = "ActorService/RegisterNamedActor"
REPORT = "ActorService/ReportActors"


@shoal.remote(num_cpus=0)
class Owner:
    """Owns its first actor when it is told to; before, no agent knows it as an owner."""

    def own(self, name: str) -> int:
        self.counter = Counter.options(num_cpus=0, **({"name": name} if name else {})).remote()
        return shoal.get(self.counter.add.remote())

    def pid(self) -> int:
        return os.getpid()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as made:
        made.add_node(num_cpus=1)
        made.connect(namespace=NAMESPACE)
        yield made


@pytest.fixture
def node(cluster) -> Iterator[ClusterNode]:
    yield cluster.worker_nodes[0]
    cluster.faults.clear()
    until(everything_free, "everything is free again")
    cluster.check_ledger()


def listed(cluster: Cluster) -> list[str]:
    """Class names of all actors that the GCS ever heard of."""
    with GcsCalls(cluster.gcs_address) as gcs:
        return [record.class_name for record in gcs.actors().actors]


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("name", ["early", ""])
def test_the_gcs_hears_of_an_actor_once_its_owner_is_known_at_home(cluster, node, name, killed):
    there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    owner = Owner.options(scheduling_strategy=there).remote()
    pid = shoal.get(owner.pid.remote(), timeout=20)
    before = listed(cluster).count("Counter")
    cluster.faults.delay(SESSION, node, FOREVER, answer=True)
    for kind in (REGISTER, REPORT):
        cluster.faults.delay(kind, node, 0)  # only counts
    owned = owner.own.remote(name)
    cluster.faults.wait_met(SESSION, node)
    unheard = lambda: not cluster.faults.met(REGISTER) and not cluster.faults.met(REPORT)
    lives_on(unheard, "the GCS was told before the agent's welcome", WINDOW_S)
    if killed:
        os.kill(pid, signal.SIGKILL)
        cluster.faults.clear()
        with pytest.raises(ActorDiedError):
            shoal.get(owned, timeout=20)
        assert listed(cluster).count("Counter") == before
        # Free for anybody: the same name, or none.
        owned = (
            Counter.options(num_cpus=0, **({"name": name} if name else {})).remote().add.remote()
        )
    cluster.faults.clear()
    assert shoal.get(owned, timeout=20) == 1
    if name and not killed:
        assert shoal.get(shoal.get_actor(name).add.remote(), timeout=20) == 2
    until(lambda: listed(cluster).count("Counter") == before + 1, "the list names it")
