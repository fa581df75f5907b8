"""FIELD_REPORTS O-19 at its size: of 200 nodes none is blamed for what others do."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator

import pytest

import shoal
from shoal.cluster_utils import Cluster, Fleet
from shoal.gcs_calls import GcsCalls
from tests.cluster.waiting import lives_on, process_lives, until

FLEET_NODES = 200
PING_INTERVAL_S = 0.4
MISSED_PINGS, CRASHED = 3, 2
BACK_S = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    head = {"num_cpus": 0}
    with Cluster(
        initialize_head=True, head_node_args=head, ping_interval_s=PING_INTERVAL_S
    ) as made:
        made.connect()
        yield made


@pytest.fixture(scope="module")
def fleet(cluster: Cluster) -> Iterator[Fleet]:
    """All but one of the nodes; every agent listens, so that a death is seen at once."""
    with Fleet(cluster.address, FLEET_NODES - 1, connections=20, leases=True) as made:
        yield made


@pytest.fixture(scope="module")
def lone(cluster: Cluster) -> Iterator[Fleet]:
    """One node in a process of its own, which can be stopped alone."""
    with Fleet(cluster.address, 1, connections=1, leases=True, name="lone") as made:
        yield made


def row(node_id: str) -> dict[str, object]:
    return next(each for each in shoal.nodes() if each["NodeID"] == node_id)


def alive_ids() -> set[str]:
    return {node["NodeID"] for node in shoal.nodes() if node["Alive"]}


def nobody_dead(cluster: Cluster) -> bool:
    with GcsCalls(cluster.gcs_address) as gcs:
        status = gcs.status()
    return status.nodes_dead == 0 and status.nodes_alive == FLEET_NODES + 1


def bound_s(cluster: Cluster) -> float:
    """Printed by the GCS: how long after its last word a hanging node is declared dead."""
    with GcsCalls(cluster.gcs_address) as gcs:
        return gcs.status(verbose=True).counters["liveness.silence_bound_ms"] / 1_000


def test_a_gcs_that_hangs_blames_none_of_them(cluster: Cluster, fleet: Fleet, lone: Fleet) -> None:
    """First run: stopped for three times its own bound."""
    assert {*fleet.node_ids(), *lone.node_ids()} <= alive_ids()
    bound = bound_s(cluster)
    os.kill(cluster.gcs_pid, signal.SIGSTOP)
    try:
        # Time for the checker to be late: the subject of this test, nothing is awaited.
        threading.Event().wait(3 * bound)
    finally:
        os.kill(cluster.gcs_pid, signal.SIGCONT)
    lives_on(lambda: nobody_dead(cluster), "a healthy node was declared dead", 2 * bound)
    assert fleet.status().running == FLEET_NODES - 1


def test_a_gcs_that_comes_and_goes_blames_none_of_them(
    cluster: Cluster, fleet: Fleet, lone: Fleet
) -> None:
    """Third run: stopped in order, killed, hung and then killed; every time started again."""
    everyone = alive_ids()
    assert {*fleet.node_ids(), *lone.node_ids()} <= everyone
    for way in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        os.kill(cluster.gcs_pid, way)
        cluster.kill_gcs()
        cluster.start_gcs()
        assert alive_ids() == everyone
    lives_on(lambda: nobody_dead(cluster), "a healthy node was declared dead", 2 * bound_s(cluster))
    assert fleet.status().running == FLEET_NODES - 1


def test_one_that_hangs_is_the_only_one_dead_and_ends_when_it_hears_so(
    cluster: Cluster, fleet: Fleet, lone: Fleet
) -> None:
    """Second run: a node does not answer; the verdict names the evidence of both sides."""
    (hanging,) = lone.node_ids()
    bound = bound_s(cluster)
    os.kill(lone.pid, signal.SIGSTOP)
    try:
        dead = until(
            lambda: (found := row(hanging)) and not found["Alive"] and found,
            "the hanging node is dead",
            bound + 15,
        )
    finally:
        os.kill(lone.pid, signal.SIGCONT)
    message = str(dead["DeathReasonMessage"])
    assert dead["DeathReason"] == MISSED_PINGS, message
    said = re.search(
        r"3 pings in a row unanswered, its loop lag at the last answer was \d+ ms;"
        r" own loop lag (\d+) ms; last contact ([\d.]+) s ago",
        message,
    )
    assert said, message
    # The bound holds unless the checker itself was late, which it then says.
    assert float(said[2]) <= bound + int(said[1]) / 1_000 + 5, message
    until(lambda: lone.status().running == 0, "the refused agent ends", BACK_S)
    assert process_lives(lone.pid), "the fleet's process ended with one of its agents"
    assert set(fleet.node_ids()) <= alive_ids()
    assert fleet.status().running == FLEET_NODES - 1


def test_a_true_death_among_them_is_found(cluster: Cluster, fleet: Fleet) -> None:
    victim = fleet.node_ids()[7]
    fleet.kill_node(victim)
    dead = until(
        lambda: (found := row(victim)) and not found["Alive"] and found,
        "the killed node is dead",
        bound_s(cluster) + 15,
    )
    assert dead["DeathReason"] == CRASHED, dead
    assert set(fleet.node_ids()) - {victim} <= alive_ids()
