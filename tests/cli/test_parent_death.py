"""Whatever started a cluster takes it along, however it ends."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from shoal.agent_launcher import AgentLauncher
from shoal.cluster_utils import Cluster
from shoal.processes import AgentOptions, ProcessStartError, SessionFolder, start_gcs
from tests.cli.process_states import running

pytestmark = pytest.mark.cluster
END_S = 5.0
COMMAND_S = 30

TEST_CLUSTER = """
from shoal.cluster_utils import Cluster
cluster = Cluster(initialize_head=True)
node = cluster.add_node()
say([cluster.gcs_pid, cluster.head_node.pid, node.pid, cluster._launcher.pid])
"""
LOCAL_CLUSTER = """
from shoal.processes import start_local_cluster
local = start_local_cluster()
say([local.gcs.pid, local.agent.pid])
"""
SAY = """
import json, signal
def say(pids):
    print(json.dumps(pids), flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("program", [TEST_CLUSTER, LOCAL_CLUSTER], ids=["test", "local"])
def test_a_killed_program_takes_its_cluster_along(program, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SAY + program],
        stdout=subprocess.PIPE,
        env={**os.environ, "SHOAL_TEMP_DIR": str(tmp_path)},
    )
    pids = json.loads(process.stdout.readline())
    assert running(pids) == pids
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=COMMAND_S)
    end = time.monotonic() + END_S
    while left := running(pids):
        assert time.monotonic() < end, left


def test_an_agent_that_cannot_start_says_why_and_the_others_stay():
    with Cluster(initialize_head=True) as cluster:
        with pytest.raises(ProcessStartError, match=r"(?s)ended with exit code 2.*nonsense"):
            cluster.add_node(settings={"nonsense": "1"})
        assert cluster.list_all_nodes() == [cluster.head_node]
        cluster.wait_for_nodes()


def test_agents_end_with_their_launcher_and_no_more_can_start(tmp_path):
    session = SessionFolder(tmp_path)
    gcs = start_gcs(session)
    launcher = AgentLauncher(session)
    try:
        agent = launcher.start(AgentOptions(num_cpus=1, memory=10**8), gcs.address)
        os.kill(launcher.pid, signal.SIGKILL)
        end = time.monotonic() + END_S
        while running([agent.pid]):
            assert time.monotonic() < end
        with pytest.raises(ProcessStartError, match="launcher"):
            launcher.start(AgentOptions(), gcs.address)
    finally:
        launcher.close()
        gcs.kill()
