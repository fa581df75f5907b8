"""The GCS dies by SIGKILL and comes back while actors are not alive yet, or are restarting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import shoal
from tests.cluster.fates import NOWHERE, Story, Subject, bring_to
from tests.cluster.remote_code import Counter
from tests.cluster.waiting import until


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(num_cpus=1)


def test_a_name_asked_for_while_the_gcs_is_away_is_taken_when_it_is_back(cluster):
    cluster.kill_gcs()
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(Counter.options(name="later").remote, 4)
        cluster.start_gcs()
        counter = asked.result(timeout=60)
    assert shoal.get(counter.add.remote(), timeout=20) == 5
    assert shoal.get(shoal.get_actor("later").add.remote(), timeout=20) == 6


@pytest.mark.parametrize("lifetime", [None, "detached"])
def test_an_actor_that_waits_for_room_is_placed_after_the_gcs_restarted(
    cluster, tmp_path, lifetime
):
    story = Story(tmp_path)
    subject = Subject.options(resources=NOWHERE, lifetime=lifetime, name="s").remote(str(tmp_path))
    waiting = subject.pid.remote()
    cluster.kill_gcs()
    cluster.start_gcs()
    until(lambda: all(node["Alive"] for node in shoal.nodes()), "all nodes are back")
    assert shoal.wait([waiting], timeout=0) == ([], [waiting])
    cluster.add_node(num_cpus=1, resources=NOWHERE)
    story.let(1)
    assert shoal.get(waiting, timeout=20) == story.pid(1)
    assert shoal.get(shoal.get_actor("s").pid.remote(), timeout=20) == story.pid(1)


@pytest.mark.parametrize("lifetime", [None, "detached"])
@pytest.mark.parametrize("phase", ["starting", "restarting"])
def test_a_constructor_that_runs_does_not_notice_the_gcs(cluster, tmp_path, phase, lifetime):
    story = Story(tmp_path)
    subject = bring_to(phase, story, lifetime=lifetime, name="s")
    waiting = subject.pid.remote()
    start = len(story.pids())
    cluster.kill_gcs()
    story.let(start)
    if lifetime is None:
        assert shoal.get(waiting, timeout=20) == story.pid(start)
    cluster.start_gcs()
    assert shoal.get(waiting, timeout=20) == story.pid(start)
    assert shoal.get(shoal.get_actor("s").pid.remote(), timeout=20) == story.pid(start)
    assert len(story.pids()) == start


def test_arguments_of_a_detached_actor_may_come_after_the_gcs_restarted(cluster, tmp_path):
    story = Story(tmp_path)
    subject = bring_to("no argument", story, lifetime="detached", name="s")
    waiting = subject.pid.remote()
    cluster.kill_gcs()
    (tmp_path / "argument").touch()
    story.let(1)
    cluster.start_gcs()
    assert shoal.get(waiting, timeout=20) == story.pid(1)
    assert len(story.pids()) == 1
