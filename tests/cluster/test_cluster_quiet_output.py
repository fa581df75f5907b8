"""Standard output and error of a driver are the program's, whatever becomes of its cluster."""

from __future__ import annotations

import pytest

from shoal.cluster_utils import Cluster
from tests.cluster.drivers import DRIVER_DEADLINE_S, piped_driver

pytestmark = pytest.mark.cluster

DRIVER = """
import sys
import time
import shoal
from shoal.exceptions import RayError
from shoal.util.placement_group import placement_group

shoal.init()

@shoal.remote
class Sleeper:
    def here(self):
        return 1

    def sleep(self):
        time.sleep(600)

group = placement_group([{"CPU": 1}])
shoal.get(group.ready())
sleepers = [Sleeper.remote() for _ in range(2)]
shoal.get([each.here.remote() for each in sleepers])
calls = [each.sleep.remote() for each in sleepers]
print("ready", flush=True)
sys.stdin.readline()
for call in calls:
    try:
        shoal.get(call, timeout=20)
    except RayError:
        print("lost", flush=True)
shoal.shutdown()
print("over", flush=True)
"""


def kill_gcs(cluster):
    cluster.kill_gcs()


def kill_node(cluster):
    cluster.head_node.kill()


@pytest.mark.parametrize(
    "kills",
    [(kill_gcs, kill_node), (kill_node, kill_gcs), (kill_node,)],
    ids=["gcs and node", "node and gcs", "node"],
)
def test_a_driver_whose_cluster_is_killed_prints_what_its_program_prints(kills):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 3}) as cluster:
        with piped_driver(DRIVER, cluster.address) as driver:
            assert driver.stdout.readline() == "ready\n"
            for kill in kills:
                kill(cluster)
            output, errors = driver.communicate("\n", timeout=DRIVER_DEADLINE_S)
        assert (output, errors, driver.returncode) == ("lost\nlost\nover\n", "", 0)
