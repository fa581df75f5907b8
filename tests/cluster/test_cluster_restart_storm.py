"""500 actors of one owner that are lost at once come back in one batch of leases per agent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import shoal
from driver_client import limits
from shoal.cluster_utils import Cluster, Fleet
from shoal.gcs_calls import GcsCalls, agent_state
from tests.cluster.waiting import until

ACTORS = 500
NODES = 5
ROOM = 150
"""Of each node that restarted actors may go to: four are needed."""

WORK_S = 30
FRAMES_MAX = 3
"""To one agent for one storm: one is what is seen. What is queued while a frame is written would go
as the next one; a frame for each actor would be a hundred and more."""

BATCHES_AT_ONCE = 2
REPORTS = "rpc.ReportActors"
"""Batches of records: sent by themselves, nobody waits for the answer."""

OWN_QUESTIONS = ("rpc.GetClusterStatus", "rpc.GetAllNodes")
"""What this test itself asks the GCS."""

Counters = dict[str, int]


@shoal.remote(num_cpus=1, max_restarts=2)
class Member:
    def call(self) -> str:
        return "a faked worker answers None instead"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as made:
        made.connect()
        yield made


def calls(gcs: GcsCalls) -> Counters:
    """Calls of every process to the GCS so far, but for this test's own."""
    found = gcs.status().counters
    return {
        name: count
        for name, count in found.items()
        if name.startswith("rpc.") and name not in OWN_QUESTIONS
    }


def alive(gcs: GcsCalls) -> dict[str, str]:
    """Addresses of the nodes that live, by id."""
    return {node.node_id.hex(): node.address for node in gcs.nodes(alive_only=True).nodes}


def of_agents(gcs: GcsCalls, name: str) -> Counters:
    """One counter of every agent that lives, by node id."""
    return {node_id: agent_state(address).counters[name] for node_id, address in alive(gcs).items()}


def kill(gcs: GcsCalls, fleet: Fleet, node_id: str) -> None:
    """Returns when everybody may know it: nobody asks the dead agent then."""
    fleet.kill_node(node_id)
    until(lambda: node_id not in alive(gcs), "the node is dead", WORK_S)


def rise(before: Counters, after: Counters) -> Counters:
    grown = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in grown.items() if count}


@contextmanager
def restarted_in_batches(gcs: GcsCalls, lost: int) -> Iterator[None]:
    """Inside, `lost` actors are lost and come back; then the counters are looked at."""
    frames, granted = of_agents(gcs, "owner_frames"), of_agents(gcs, "leases_granted")
    asked, begun = calls(gcs), time.monotonic()
    yield
    took_s = time.monotonic() - begun
    told = rise(asked, calls(gcs))
    assert set(told) <= {REPORTS}, "the GCS is asked nothing for an unnamed actor"
    assert told.get(REPORTS, 0) <= took_s / limits.ACTOR_RECORDS_PAUSE_S + BATCHES_AT_ONCE
    assert sum(rise(granted, of_agents(gcs, "leases_granted")).values()) == lost
    sent = rise(frames, of_agents(gcs, "owner_frames"))
    assert max(sent.values()) <= FRAMES_MAX, sent


def test_actors_of_a_dead_node_are_restarted_in_one_batch_for_each_agent(cluster):
    with (
        Fleet(cluster.address, 1, resources={"CPU": ACTORS}, leases=True) as doomed,
        GcsCalls(cluster.gcs_address) as gcs,
    ):
        members = [Member.remote() for _ in range(ACTORS)]
        shoal.get([member.__ray_ready__.remote() for member in members], timeout=WORK_S)
        assert doomed.status().workers == ACTORS
        with Fleet(cluster.address, NODES, first=1, resources={"CPU": ROOM}, leases=True) as others:

            def all_answer() -> None:
                until(lambda: others.status().workers == ACTORS, "all have a worker", WORK_S)
                answers = [member.call.remote() for member in members]
                assert shoal.get(answers, timeout=WORK_S) == [None] * ACTORS

            # The agents that they go to are new to their owner.
            with restarted_in_batches(gcs, ACTORS):
                kill(gcs, doomed, doomed.node_ids()[0])
                all_answer()
            # The owner has sessions with those that are left.
            held = of_agents(gcs, "leases_granted")
            fullest = max(others.node_ids(), key=held.__getitem__)
            with restarted_in_batches(gcs, held[fullest]):
                kill(gcs, others, fullest)
                all_answer()
