"""Nonsense at every port neither ends nor blocks a service: it answers, and work goes on."""

from __future__ import annotations

import os
import random
import re

import grpc
import pytest

import shoal
from cluster_api.v1 import agent_pb2, agent_pb2_grpc, core_worker_pb2, core_worker_pb2_grpc
from cluster_common.transport import endpoints
from driver_client import process
from shoal.cluster_utils import Cluster
from shoal.gcs_calls import GcsCalls
from tests.cluster import fuzzing
from tests.cluster.waiting import process_lives

SEED = int(os.environ.get("SHOAL_FUZZ_SEED", "20261130"))
ROUNDS = int(os.environ.get("SHOAL_FUZZ_ROUNDS", "6"))
ANSWER_S = 20
BROKEN = re.compile(r"(call|output|task)_failed|broken_invariant")
"""What services log when something of their own went wrong."""
UNEXPECTED = re.compile(r"Unexpected <class '(?!google\.protobuf)|broken invariant")
"""What callers are told then; that bytes are no message is what they deserve to hear."""


@shoal.remote
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count

    def address(self) -> tuple[str, int]:
        return process.connected_runtime().facts.own_address, os.getpid()


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 4})
    try:
        made.connect()
        yield made
    finally:
        made.shutdown()


@pytest.fixture(autouse=True)
def nothing_broke(cluster):
    """A broken invariant is logged and survived: to nonsense it must not even come."""
    seen = {path: path.stat().st_size for path in cluster.session.logs.iterdir()}
    yield
    found = [
        f"{path.name}: {line}"
        for path in sorted(cluster.session.logs.iterdir())
        for line in path.read_text(errors="replace")[seen.get(path, 0) :].splitlines()
        if BROKEN.search(line)
    ]
    assert not found, "\n".join(found[:5])


@pytest.fixture(scope="module")
def ports(cluster):
    """Name -> (address, services, whether it still answers), and the pids that must live on."""
    counter = Counter.remote()
    worker, worker_pid = shoal.get(counter.address.remote(), timeout=ANSWER_S)
    head = cluster.head_node
    found = {
        "gcs": (cluster.gcs_address, fuzzing.GCS_SERVICES, gcs_answers),
        "agent": (head.address, fuzzing.AGENT_SERVICES, agent_answers),
        "worker": (worker, fuzzing.PROCESS_SERVICES, process_answers),
        "driver": (
            process.connected_runtime().facts.own_address,
            fuzzing.PROCESS_SERVICES,
            process_answers,
        ),
    }
    return found, [cluster.gcs_pid, head.pid, worker_pid], counter


def gcs_answers(address: str) -> None:
    with GcsCalls(address, timeout_s=ANSWER_S) as gcs:
        assert gcs.status(verbose=True).nodes_alive >= 1


def agent_answers(address: str) -> None:
    with endpoints.make_blocking_channel(address) as channel:
        stub = agent_pb2_grpc.AgentServiceStub(channel)
        assert stub.CheckLedger(agent_pb2.CheckLedgerRequest(), timeout=ANSWER_S).ok


def process_answers(address: str) -> None:
    with endpoints.make_blocking_channel(address) as channel:
        stub = core_worker_pb2_grpc.CoreWorkerServiceStub(channel)
        stub.GetWorkerState(core_worker_pb2.GetWorkerStateRequest(), timeout=ANSWER_S)


@shoal.remote
def double(number: int) -> int:
    return 2 * number


def work_goes_on(ports) -> None:
    found, pids, counter = ports
    for address, _services, answers in found.values():
        answers(address)
    assert all(process_lives(pid) for pid in pids)
    before = shoal.get(counter.add.remote(), timeout=ANSWER_S)
    assert shoal.get(counter.add.remote(), timeout=ANSWER_S) == before + 1
    assert shoal.get([double.remote(n) for n in range(4)], timeout=ANSWER_S) == [0, 2, 4, 6]


@pytest.mark.parametrize("name", ["gcs", "agent", "worker", "driver"])
def test_random_bytes_at_a_port_disturb_nobody(ports, name):
    address = ports[0][name][0]
    fuzzing.throw_at_port(address, fuzzing.raw_blobs(random.Random(SEED)))
    work_goes_on(ports)


@pytest.mark.parametrize("name", ["gcs", "agent", "worker", "driver"])
def test_malformed_and_misleading_messages_disturb_nobody(ports, name):
    address, services, answers = ports[0][name]
    dice = random.Random(f"{SEED} {name}")
    with endpoints.make_blocking_channel(address) as channel:
        for _ in range(ROUNDS):
            for service in services:
                for method in service.methods:
                    if method.name in fuzzing.OBEYED:
                        continue
                    for make in (fuzzing.frames_for, fuzzing.opened_frames):
                        frames = make(dice, method)
                        code, details = fuzzing.open_call(channel, method, frames)
                        told = f"{fuzzing.path_of(method)}: {code.name}: {details}"
                        assert code is not grpc.StatusCode.UNAVAILABLE, told
                        assert not UNEXPECTED.search(details), told
            answers(address)
    work_goes_on(ports)
