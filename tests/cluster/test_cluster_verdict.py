"""A driver that was declared dead while it lives ends clearly: every call says why."""

from __future__ import annotations

import grpc
import pytest

import shoal
from cluster_api.v1 import gcs_pb2, gcs_pb2_grpc
from driver_client import limits
from shoal.exceptions import ActorDiedError, RayError, RaySystemError
from tests.cluster.conftest import NAMESPACE
from tests.cluster.fates import NOWHERE
from tests.cluster.remote_code import Counter, gated, increment
from tests.cluster.waiting import until_gone

WHY = "declared dead by the cluster"


REASON = "JobService/GetAllJobs"
"""What a driver that hears of its death asks the GCS."""


def declare_dead(address: str) -> None:
    """What the GCS concludes from an agent's word, or from a driver that does not answer."""
    job_id = bytes.fromhex(shoal.get_runtime_context().get_job_id())
    with grpc.insecure_channel(address) as channel:
        jobs = gcs_pb2_grpc.JobServiceStub(channel)
        jobs.FinishJob(gcs_pb2.FinishJobRequest(job_id=job_id), timeout=10)


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(num_cpus=2)


def test_a_driver_that_was_declared_dead_is_told_and_says_so_at_every_call(cluster, gate):
    counter = Counter.options(name="mine", max_restarts=-1, max_task_retries=-1).remote()
    pid = shoal.get(counter.pid.remote())
    value = shoal.put("stays")
    running = [counter.gated.remote(gate.path), gated.remote(gate.path)]
    waiting = increment.options(resources=NOWHERE).remote(1)
    nowhere = Counter.options(resources=NOWHERE).remote()
    declare_dead(cluster.address)
    until_gone(pid)
    for reference in [*running, waiting, nowhere.add.remote()]:
        with pytest.raises(RayError, match=f"{WHY} .its job finished"):
            shoal.get(reference, timeout=20)
    with pytest.raises(ActorDiedError, match=WHY) as caught:
        shoal.get(counter.pid.remote(), timeout=20)
    assert caught.value.cause.name == "OWNER_DIED"
    with pytest.raises(RaySystemError, match=WHY):
        shoal.get(increment.remote(1), timeout=20)
    with pytest.raises(ActorDiedError, match=WHY):
        shoal.get(Counter.remote().add.remote(), timeout=20)
    for call in (
        shoal.nodes,
        lambda: shoal.get_actor("mine"),
        Counter.options(name="another").remote,
        Counter.options(name="another", lifetime="detached").remote,
    ):
        with pytest.raises(RaySystemError, match=WHY):
            call()
    assert shoal.get(value) == "stays"
    shoal.shutdown()
    shoal.init(cluster.address, namespace=NAMESPACE)
    again = Counter.options(name="mine").remote(7)
    assert shoal.get(again.add.remote(), timeout=20) == 8


def test_what_is_called_before_the_reason_is_known_hears_it_too(cluster, monkeypatch):
    """The agents said only that this owner is dead; nobody hears that instead."""
    monkeypatch.setattr(limits, "VERDICT_REASON_S", 60.0)
    counter = Counter.remote()
    shoal.get(counter.pid.remote(), timeout=20)
    cluster.faults.delay(REASON, "gcs", float("inf"))
    declare_dead(cluster.address)
    cluster.faults.wait_met(REASON)
    called = [increment.remote(1), Counter.remote().add.remote(), counter.add.remote()]
    assert shoal.wait(called, timeout=0.2) == ([], called)
    cluster.faults.clear()
    for reference in called:
        with pytest.raises(RayError, match=f"{WHY} .its job finished"):
            shoal.get(reference, timeout=20)
