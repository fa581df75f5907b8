"""The GCS dies by SIGKILL and comes back: calls go on, nothing acknowledged is lost."""

from __future__ import annotations

import os
import signal

import pytest

import shoal
from shoal.util.placement_group import (
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from tests.cluster.remote_code import Counter, increment
from tests.cluster.waiting import until, until_gone


@pytest.fixture
def cluster(make_cluster):
    cluster = make_cluster(num_cpus=2)
    cluster.add_node(num_cpus=2)
    return cluster


def alive() -> int:
    return sum(node["Alive"] for node in shoal.nodes())


def test_actors_answer_while_the_gcs_is_away(cluster):
    counter = Counter.remote()
    assert shoal.get(counter.add.remote()) == 1
    cluster.kill_gcs()
    assert shoal.get([counter.add.remote() for _ in range(100)]) == list(range(2, 102))
    assert shoal.get([increment.remote(number) for number in range(20)]) == list(range(1, 21))
    started_meanwhile = Counter.remote(5)
    assert shoal.get(started_meanwhile.add.remote()) == 6
    cluster.start_gcs()
    assert shoal.get(counter.add.remote()) == 102
    until(lambda: alive() == 2, "both nodes are back")
    assert shoal.get(started_meanwhile.add.remote()) == 7


def test_names_groups_and_detached_actors_outlive_the_gcs(cluster):
    named = Counter.options(name="named").remote(1)
    detached = Counter.options(name="detached", lifetime="detached").remote(10)
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD", name="group")
    shoal.get([named.add.remote(), detached.add.remote(), group.ready()])
    before = placement_group_table(group)["bundles_to_node_id"]
    pid = shoal.get(detached.pid.remote())
    cluster.kill_gcs()
    cluster.start_gcs()
    assert shoal.get(shoal.get_actor("named").add.remote()) == 3
    assert shoal.get(shoal.get_actor("detached").add.remote()) == 12
    assert shoal.get(detached.pid.remote()) == pid
    after = placement_group_table(group)
    assert (after["state"], after["bundles_to_node_id"]) == ("CREATED", before)
    with pytest.raises(ValueError, match="named"):
        Counter.options(name="named").remote()
    remove_placement_group(group)
    shoal.kill(detached)
    until_gone(pid)
    until(
        lambda: shoal.available_resources() == shoal.cluster_resources(),
        "the group's resources are free again",
    )
    cluster.check_ledger()


def test_groups_asked_for_while_the_gcs_is_away_are_made_when_it_is_back(cluster):
    cluster.kill_gcs()
    group = placement_group([{"CPU": 1}])
    ready = group.ready()
    assert shoal.wait([ready], timeout=0.1) == ([], [ready])
    cluster.start_gcs()
    shoal.get(ready, timeout=20)
    remove_placement_group(group)


def test_a_ready_that_waits_over_a_restart_is_answered(cluster):
    blocker = placement_group([{"CPU": 2}] * 2)
    shoal.get(blocker.ready())
    waiting = placement_group([{"CPU": 2}])
    ready = waiting.ready()
    cluster.kill_gcs()
    cluster.start_gcs()
    until(lambda: alive() == 2, "both nodes are back")
    assert shoal.wait([ready], timeout=0) == ([], [ready])
    remove_placement_group(blocker)
    shoal.get(ready, timeout=20)


def test_an_actor_that_dies_while_the_gcs_is_away_is_restarted_by_its_owner(cluster):
    counter = Counter.options(max_restarts=1, max_task_retries=-1).remote()
    pid = shoal.get(counter.pid.remote())
    cluster.kill_gcs()
    os.kill(pid, signal.SIGKILL)
    assert shoal.get(counter.pid.remote()) != pid
    cluster.start_gcs()
    assert shoal.get(counter.add.remote()) == 1


def test_a_node_that_died_while_the_gcs_was_away_is_dead_afterwards(cluster):
    node = cluster.worker_nodes[0]
    cluster.kill_gcs()
    node.kill()
    cluster.start_gcs()
    until(lambda: alive() == 1, "only the head is alive")
    assert shoal.get(increment.remote(1)) == 2


def test_the_gcs_may_die_again_and_again(cluster):
    held = Counter.options(name="steady").remote()
    for number in range(1, 4):
        cluster.kill_gcs()
        cluster.start_gcs()
        assert shoal.get(shoal.get_actor("steady").add.remote()) == number
    assert shoal.get(held.add.remote()) == 4
