"""`init` that fails, or is interrupted, leaves nothing: no job, no words on stderr, no bad end."""

from __future__ import annotations

import signal

import grpc
import pytest

from cluster_api.v1 import gcs_pb2, gcs_pb2_grpc
from shoal.cluster_utils import Cluster
from tests.cluster.drivers import DRIVER_DEADLINE_S, piped_driver
from tests.cluster.waiting import until

pytestmark = pytest.mark.cluster

TRIES = """
import secrets
import sys
import shoal
from driver_client import limits

{first}
limits.CONNECT_TIMEOUT_S = 1.0
for _ in range(2):  # whoever tries again goes on with the loop of the try before
    try:
        shoal.init({arguments})
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    print("connected:", shoal.is_initialized(), flush=True)
    sys.stdin.readline()
"""
WITHOUT_ID = """
ids = [b""]
made = secrets.token_bytes
secrets.token_bytes = lambda size: ids.pop() if ids else made(size)
"""
"""The first driver has no id: its job is refused."""
INTERRUPTED = """
import shoal

print("begins", flush=True)
try:
    shoal.init()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture(scope="module")
def cluster():
    with Cluster(initialize_head=True) as made:
        made.wait_for_nodes()
        yield made


@pytest.fixture
def start(cluster):
    """Starts a driver; at the end of the test it must have ended well and without a word."""
    started = []

    def begin(program):
        process = piped_driver(program, cluster.address)
        started.append(process)
        return process

    yield begin
    for process in started:
        _, errors = process.communicate(timeout=DRIVER_DEADLINE_S)
        assert errors == ""
        assert process.returncode == 0
        until(lambda: not open_jobs(cluster.address), "every job is over")


def open_jobs(address):
    with grpc.insecure_channel(address) as channel:
        jobs = gcs_pb2_grpc.JobServiceStub(channel)
        answer = jobs.GetAllJobs(gcs_pb2.GetAllJobsRequest(), timeout=10)
    return [job for job in answer.jobs if not job.is_dead]


def lines(process, count):
    return [process.stdout.readline().strip() for _ in range(count)]


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


def test_an_agent_that_does_not_answer(cluster, start):
    cluster.head_node.send(signal.SIGSTOP)
    try:
        driver = start(TRIES.format(first="", arguments=""))
        said, connected = lines(driver, 2)
        assert said.startswith("LocalRayletDiedError the agent at ")
        assert said.endswith("did not answer in 1 s")
        assert connected == "connected: False"
    finally:
        cluster.head_node.send(signal.SIGCONT)
    until(lambda: not open_jobs(cluster.address), "the job is over")
    go_on(driver)
    assert lines(driver, 1) == ["connected: True"]
    go_on(driver)


def test_a_job_that_is_refused(start):
    driver = start(TRIES.format(first=WITHOUT_ID, arguments=""))
    said, connected = lines(driver, 2)
    assert said == "ValueError a job needs the id of its driver"
    assert connected == "connected: False"
    go_on(driver)
    assert lines(driver, 1) == ["connected: True"]
    go_on(driver)


def test_packages_that_cannot_be_brought(cluster, start, tmp_path):
    (tmp_path / "module.py").write_text("")
    cluster.faults.fail("PackageService/Hold", "*", times=1_000)
    arguments = f"runtime_env={{'working_dir': {str(tmp_path)!r}}}"
    driver = start(TRIES.format(first="", arguments=arguments))
    said, connected = lines(driver, 2)
    assert said.startswith("RuntimeEnvSetupError package ")
    assert connected == "connected: False"
    cluster.faults.clear()
    go_on(driver)
    assert lines(driver, 1) == ["connected: True"]
    go_on(driver)


@pytest.mark.parametrize("met", ["JobService/AddJob", "NodeService/GetAllNodes"])
def test_an_interrupt_while_the_gcs_is_asked(cluster, start, met):
    cluster.faults.delay(met, "gcs", float("inf"), answer=True)
    driver = start(INTERRUPTED)
    assert lines(driver, 1) == ["begins"]
    cluster.faults.wait_met(met, "gcs")
    driver.send_signal(signal.SIGINT)
    cluster.faults.clear()
    assert lines(driver, 1) == ["interrupted"]


def test_an_interrupt_while_the_agent_is_waited_for(cluster, start):
    cluster.head_node.send(signal.SIGSTOP)
    try:
        driver = start(INTERRUPTED)
        until(lambda: open_jobs(cluster.address), "the driver waits for its agent")
        driver.send_signal(signal.SIGINT)
        assert lines(driver, 2) == ["begins", "interrupted"]
    finally:
        cluster.head_node.send(signal.SIGCONT)
