"""A cluster with a token refuses, at every service, who shows none or a wrong one; mutual TLS."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import grpc
import pytest

import shoal
from cluster_common.transport import auth, endpoints
from driver_client import process
from shoal.cluster_utils import Cluster
from tests.certificates import Authority
from tests.cluster import fuzzing

TOKEN = "the-token-of-this-cluster"
SHOWN = {"none": None, "wrong": "some-other-token-here", "empty": ""}


@shoal.remote
class Whereabouts:
    def address(self) -> str:
        return process.connected_runtime().facts.own_address


@pytest.fixture(scope="module")
def cluster():
    auth.configure(TOKEN)
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2}, env_vars={"SHOAL_TOKEN": TOKEN}
    )
    made.connect()
    yield made
    made.shutdown()
    auth.forget()


@pytest.fixture(scope="module")
def addresses(cluster):
    actor = Whereabouts.remote()
    yield {
        "gcs": cluster.gcs_address,
        "agent": cluster.head_node.address,
        "worker": shoal.get(actor.address.remote(), timeout=30),
        "driver": process.connected_runtime().facts.own_address,
    }
    shoal.kill(actor)


SERVICES = [
    *(("gcs", service) for service in fuzzing.GCS_SERVICES),
    *(("agent", service) for service in fuzzing.AGENT_SERVICES),
    *(("worker", service) for service in fuzzing.PROCESS_SERVICES),
    *(("driver", service) for service in fuzzing.PROCESS_SERVICES),
]


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize(
    ("where", "service"), SERVICES, ids=[f"{where}-{service.name}" for where, service in SERVICES]
)
def test_every_method_of_a_service_refuses_without_the_token(addresses, where, service, shown):
    token = SHOWN[shown]
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    with endpoints.make_blocking_channel(addresses[where]) as channel:
        for method in service.methods:
            code, details = fuzzing.open_call(channel, method, [b""], metadata=metadata)
            assert code == grpc.StatusCode.UNAUTHENTICATED, fuzzing.path_of(method)
            assert "SHOAL_TOKEN" in details
            assert TOKEN not in details


def test_reflection_is_no_way_around_the_token(cluster):
    with endpoints.make_blocking_channel(cluster.gcs_address) as channel:
        path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        with pytest.raises(grpc.RpcError) as caught:
            list(channel.stream_stream(path)(iter([b""]), timeout=5))
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_with_the_token_work_is_done(addresses):
    @shoal.remote
    def double(number: int) -> int:
        return 2 * number

    assert shoal.get(double.remote(21), timeout=30) == 42


@pytest.mark.parametrize("module", ["gcs_service", "raylet_agent"])
def test_a_host_that_others_reach_is_refused_without_token_or_certificates(module, tmp_path):
    options = {
        "gcs_service": ["--storage", "memory"],
        "raylet_agent": ["--gcs-address", "127.0.0.1:1"],
    }
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SHOAL_T")}
    ended = subprocess.run(
        [sys.executable, "-m", module, "--host", "0.0.0.0", *options[module]],
        env={**clean, "SHOAL_TEMP_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "SHOAL_TOKEN" in ended.stderr
    assert "SHOAL_TLS_CERT" in ended.stderr


DRIVER = textwrap.dedent(
    """
    import os, sys
    import grpc
    import shoal
    from cluster_api.v1 import gcs_pb2, gcs_pb2_grpc
    from shoal.cluster_utils import Cluster

    with Cluster(initialize_head=True, connect=True, head_node_args={"num_cpus": 2}) as cluster:
        cluster.add_node(num_cpus=1, resources={"far": 1})

        @shoal.remote(resources={"far": 1})
        class Far:
            def add(self, a, b):
                return a + b

        @shoal.remote
        def double(n):
            return 2 * n

        far = Far.remote()
        print("sum", shoal.get(far.add.remote(double.remote(20), 2), timeout=60))
        cluster.check_ledger()
        with grpc.insecure_channel(cluster.gcs_address) as channel:
            stub = gcs_pb2_grpc.NodeServiceStub(channel)
            try:
                stub.GetAllNodes(gcs_pb2.GetAllNodesRequest(), timeout=5)
                print("plain let in")
            except grpc.RpcError as error:
                print("plain", error.code().name)
    """
)


def test_a_whole_cluster_runs_over_mutual_tls(tmp_path):
    """Driver, GCS, agents and workers as processes that all show certificates."""
    variables = Authority("cluster").write(tmp_path / "tls")
    script = tmp_path / "driver.py"
    script.write_text(DRIVER, encoding="utf-8")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SHOAL_TOKEN")}
    ended = subprocess.run(
        [sys.executable, str(script)],
        env={**clean, **variables},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.stdout.splitlines() == ["sum 42", "plain UNAVAILABLE"], ended.stderr
