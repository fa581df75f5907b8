"""Clusters shared by the tests of one file, and the check that each leaves the books in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from shoal.cluster_utils import Cluster
from tests.cluster.waiting import until

NAMESPACE = "tests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


def everything_free() -> bool:
    return shoal.available_resources() == shoal.cluster_resources()


def close_checked(cluster: Cluster) -> None:
    """End a cluster whose tests are over; the books must agree first."""
    try:
        if shoal.is_initialized():
            cluster.check_ledger()
    finally:
        cluster.shutdown()


@pytest.fixture(scope="module")
def one_node() -> Iterator[Cluster]:
    """One node of four CPUs, this process connected to it."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4})
    try:
        cluster.connect(namespace=NAMESPACE)
        yield cluster
    finally:
        close_checked(cluster)


@pytest.fixture(scope="module")
def two_racks() -> Iterator[Cluster]:
    """A head without CPUs and two racks of three nodes with two CPUs, this process connected."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for rack in ("r1", "r2"):
            for number in range(3):
                cluster.add_node(
                    wait=False,
                    num_cpus=2,
                    resources={"slot": 1},
                    labels={"rack": rack, "number": str(number)},
                )
        cluster.wait_for_nodes()
        cluster.connect(namespace=NAMESPACE)
        yield cluster
    finally:
        close_checked(cluster)


@pytest.fixture
def make_cluster() -> Iterator[type[Cluster]]:
    """Makes clusters for one test that breaks them; the last one made is ended here."""
    made: list[Cluster] = []

    def make(**head: object) -> Cluster:
        cluster = Cluster(initialize_head=True, head_node_args=head)
        made.append(cluster)
        cluster.connect(namespace=NAMESPACE)
        return cluster

    yield make
    for cluster in made:
        cluster.shutdown()


class Gate:
    """A file that remote code waits for: the test decides when it may go on."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def open(self) -> None:
        Path(self.path).touch()


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def settled(one_node: Cluster) -> Iterator[None]:
    """The test starts and ends with every resource free."""
    until(everything_free, "all resources free at the start")
    yield
    until(everything_free, "all resources free at the end")
