"""Leases whose workers need an environment that must be made first."""

from __future__ import annotations

import json

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_common.resources import vector
from cluster_common.runtime_packages import Package
from cluster_common.worker_start import SETUP_FAILED_STATUS
from raylet_agent.core.environment_cache import EnvironmentCache
from raylet_agent.core.runtime_env import canonical, environment_of
from tests.unit.raylet_agent.agent_world import JOB, OWNER

PIP = json.dumps({"pip": {"packages": ["goods==1.0"]}})
OTHER_PIP = json.dumps({"pip": {"packages": ["goods==2.0"]}})
KEY = canonical(PIP)
TREE = Package(b"d" * 32, "project.zip")


def made(world, key=KEY):
    world.core.environment_made(key, world.now_ms)
    world.run()


def failed(world, message, key=KEY):
    world.core.environment_failed(key, message, world.now_ms)
    world.run()


def test_an_environment_is_ordered_once_and_its_workers_start_when_it_is_made(world):
    asked = [world.ask(number, runtime_env_json=PIP) for number in (1, 2)]
    assert [(order.environment, order.job_id) for order in world.ordered] == [(KEY, JOB)]
    assert world.spawned == []
    assert world.free() == 2
    made(world)
    assert [spawn.environment for spawn in world.spawned] == [KEY, KEY]
    assert world.heard() == [("grant", asked[0]), ("grant", asked[1])]
    world.check()


def test_other_work_does_not_wait_for_an_environment(world):
    world.ask(1, runtime_env_json=PIP)
    plain = world.ask(2)
    assert world.heard() == [("grant", plain)]


def test_what_waits_for_one_that_cannot_be_made_fails_and_the_next_one_tries_again(world):
    world.ask(1, runtime_env_json=PIP)
    other = world.ask(2, runtime_env_json=OTHER_PIP)
    failed(world, "no such goods")
    (failure,) = world.items("failed")
    assert failure.reason == a.LEASE_FAILURE_RUNTIME_ENV_FAILED
    assert failure.message == "runtime environment: no such goods"
    assert world.free() == 3
    made(world, canonical(OTHER_PIP))
    assert world.heard() == [("grant", other)]
    world.ask(3, runtime_env_json=PIP)
    assert [order.environment for order in world.ordered].count(KEY) == 2
    world.check()


def test_an_environment_is_let_go_with_its_last_worker(world):
    first = world.ask(1, runtime_env_json=PIP)
    second = world.ask(2, runtime_env_json=PIP)
    made(world)
    workers = [grant.worker_id for grant in world.items("grant")]
    world.give_back(first, kill_worker=True)
    assert world.released == []
    world.give_back(second, kill_worker=True)
    assert world.released == [KEY]
    assert len(workers) == 2
    world.ask(3, runtime_env_json=PIP)
    assert len(world.ordered) == 2


def test_one_that_nobody_wants_any_more_is_let_go_when_it_is_made(world):
    asked = world.ask(1, runtime_env_json=PIP)
    world.cancel(asked)
    assert world.released == []
    made(world)
    assert world.released == [KEY]
    assert world.spawned == []


def test_one_ordered_ahead_is_made_once(world):
    ahead = a.PrepareEnvironment(runtime_env_json=PIP, job_id=JOB)
    world.send(OWNER, a.OwnerItem(prepare=ahead))
    world.ask(1, runtime_env_json=PIP)
    assert len(world.ordered) == 1
    made(world)
    assert [kind for kind, _ in world.heard()] == ["grant"]


def test_a_wrong_one_ordered_ahead_is_told_with_the_first_request(world):
    ahead = a.PrepareEnvironment(runtime_env_json="{", job_id=JOB)
    world.send(OWNER, a.OwnerItem(prepare=ahead))
    assert world.ordered == []
    world.ask(1, runtime_env_json="{")
    assert world.items("failed")[0].reason == a.LEASE_FAILURE_RUNTIME_ENV_FAILED


def test_a_hook_that_fails_fails_what_waits_at_the_first_try(world):
    world.auto_register = False
    text = json.dumps({"worker_process_setup_hook": "some.hook"})
    world.ask(1, runtime_env_json=text)
    world.ended(world.spawned[0].worker_id, SETUP_FAILED_STATUS, "it said no")
    (failure,) = world.items("failed")
    assert failure.reason == a.LEASE_FAILURE_RUNTIME_ENV_FAILED
    assert "it said no" in failure.message
    assert len(world.spawned) == 1


def test_a_detached_actor_without_its_environment_failed_at_creation(world):
    start = n.StartDetachedActor(
        actor_id=OWNER + bytes(8),
        incarnation=1,
        job_id=JOB,
        bundle_index=-1,
        resources=t.ResourceSet(amounts=vector({"CPU": 1})),
        runtime_env_json=PIP,
    )
    world.gcs(start_detached_actor=start)
    assert world.ordered[0].actor_id == OWNER + bytes(8)
    failed(world, "no such goods")
    (event,) = world.events()
    assert event.kind == n.DETACHED_ACTOR_EVENT_KIND_CREATION_FAILED
    assert event.message == "runtime environment: no such goods"
    assert world.free() == 4


def test_the_end_of_a_driver_is_told_to_whoever_keeps_its_packages(world):
    world.send(OWNER, a.OwnerItem(closing=a.OwnerClosing()))
    assert world.jobs_ended == [JOB]


# ---- texts


def test_how_long_it_may_take_makes_no_other_environment():
    timed = json.dumps({**json.loads(PIP), "config": {"setup_timeout_seconds": 7}})
    assert canonical(timed) == KEY
    assert environment_of(timed).timeout_s == 7
    endless = json.dumps({"config": {"setup_timeout_seconds": -1}})
    assert environment_of(endless).timeout_s == float("inf")
    assert canonical(endless) == ""


def test_packages_are_named_by_content():
    environment = environment_of(json.dumps({"working_dir": TREE.uri, "py_modules": [TREE.uri]}))
    assert environment.packages == (TREE, TREE)
    with pytest.raises(ValueError, match="working_dir"):
        environment_of(json.dumps({"working_dir": "/some/where"}))


def test_an_installer_reads_its_own_variables_only():
    text = {"pip": {"packages": ["x"]}, "env_vars": {"PIP_INDEX_URL": "u", "UV_X": "1", "A": "1"}}
    tool = environment_of(json.dumps(text)).tool
    assert tool is not None
    assert tool.variables == {"PIP_INDEX_URL": "u"}


# ---- the cache


def test_unused_entries_go_the_least_recently_used_first():
    cache = EnvironmentCache(bytes_max=100, entries_max=10)
    for name in ("a", "b", "c"):
        cache.add(name, 40, name)
    assert cache.take_victims() == []  # all in use
    for user in ("b", "a", "c"):
        cache.release(user)
    assert cache.take_victims() == ["b"]
    assert cache.use("a", "x")
    cache.add("d", 60, "d")
    cache.release("d")
    assert cache.take_victims() == ["c"]
    assert cache.bytes_used == 100
    assert "a" in cache


def test_the_number_of_entries_is_bounded_too():
    cache = EnvironmentCache(bytes_max=100, entries_max=2)
    for name in ("a", "b", "c"):
        cache.add(name, 1, name)
        cache.release(name)
    assert cache.take_victims() == ["a"]
    assert not cache.use("a", "x")
