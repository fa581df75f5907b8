"""A driver and its agent lose each other while both run: nothing of the driver's ends by that."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import shoal
from driver_client import limits, process
from shoal.cluster_utils import Cluster
from tests.cluster.remote_code import Counter, increment

SESSION = "AgentService/LeaseSession"
QUESTION = "CoreWorkerService/GetWorkerState"
CUT_S = 4.0
"""Twice the time after which the agent suspects its driver."""


@pytest.fixture
def cluster(monkeypatch):
    # The driver itself goes on trying: what it does when it gives up is another test's subject.
    monkeypatch.setattr(limits, "AGENT_RECONNECT_S", 60.0)
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 2}) as cluster:
        cluster.connect()
        yield cluster


@pytest.fixture
def actor(cluster):
    """An actor that was called once."""
    actor = Counter.remote()
    assert shoal.get(actor.add.remote(), timeout=20) == 1
    return actor


def shut_connections_to(address):
    """What a broken network does to the connections of this process to `host:port`."""
    port = int(address.rpartition(":")[2])
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # closed meanwhile, or no connected socket
            if not path.is_socket():
                continue
            with socket.socket(fileno=os.dup(int(path.name))) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6) and one.getpeername()[1] == port:
                    one.shutdown(socket.SHUT_RDWR)


def break_home_session(cluster):
    """The session to the home agent breaks, and cannot be opened again until `clear`."""
    cluster.faults.fail(SESSION, cluster.head_node, times=1_000_000)
    cluster.faults.delay(QUESTION, "driver", 0)  # only counts
    shut_connections_to(process.get_runtime().leases().home_address)
    cluster.faults.wait_met(SESSION, cluster.head_node)


def lives(actor):
    assert shoal.get(actor.add.remote(), timeout=20) == 2
    assert shoal.get(increment.remote(1), timeout=20) == 2
    named = Counter.options(name="after", num_cpus=0).remote()
    assert shoal.get(named.add.remote(), timeout=20) == 1


def test_a_driver_cut_off_from_its_agent_alone_keeps_its_job(cluster, actor):
    """Its agent suspects it after 2 s and asks the GCS, which reaches the driver."""
    break_home_session(cluster)
    cluster.faults.wait_met(QUESTION, "driver")
    cluster.faults.clear()
    lives(actor)


def test_a_driver_cut_off_from_everybody_for_some_seconds_keeps_its_job(cluster, actor):
    """Silence of its port proves nothing, until it has lasted for 5 s more."""
    break_home_session(cluster)
    cluster.faults.partition("driver")
    threading.Event().wait(CUT_S)  # the time that it is cut off: the subject of the test
    cluster.faults.heal("driver")
    cluster.faults.wait_met(QUESTION, "driver")
    cluster.faults.clear()
    lives(actor)
