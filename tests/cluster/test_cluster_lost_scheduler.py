"""The only scheduler dies while other nodes live: requests wait, and go on with the next one."""

from __future__ import annotations

import json

import pytest

from shoal.cluster_utils import Cluster
from tests.cluster.drivers import DRIVER_DEADLINE_S, piped_driver

pytestmark = pytest.mark.cluster

DRIVER = """
import sys
import shoal
from cluster_common.transport.logs import set_up_logs

set_up_logs("driver")
shoal.init()

@shoal.remote
def one():
    return 1

@shoal.remote(num_cpus=3)
def large():
    return 3

print(shoal.get(one.remote()), flush=True)
sys.stdin.readline()
refs = [large.remote() for _ in range(3)]
print(shoal.get(one.remote(), timeout=30), flush=True)  # the next home has room for it
print(shoal.wait(refs, timeout=1)[0], flush=True)
print(shoal.get(refs, timeout=30), flush=True)
"""


def test_what_no_node_here_can_hold_waits_for_the_next_scheduler_without_a_word():
    with Cluster() as cluster:
        head = cluster.add_node(num_cpus=1)
        for _ in range(2):
            cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        lost = head.address
        with piped_driver(DRIVER, cluster.address) as driver:
            assert driver.stdout.readline() == "1\n"
            head.kill()
            driver.stdin.write("\n")
            driver.stdin.flush()
            assert driver.stdout.readline() == "1\n"
            assert driver.stdout.readline() == "[]\n"
            cluster.add_node(num_cpus=4, scheduler=True)
            output, errors = driver.communicate(timeout=DRIVER_DEADLINE_S)
        assert (output, driver.returncode) == ("[3, 3, 3]\n", 0)
        said = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
        losses = [line["address"] for line in said if line["event"] == "agent_lost"]
        assert losses.count(lost) == 1
