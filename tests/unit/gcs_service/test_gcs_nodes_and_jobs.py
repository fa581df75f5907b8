"""Membership, jobs and owners, as the control core decides about them."""

from __future__ import annotations

import pytest

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core import tables
from tests.unit.gcs_service.control_rig import CLUSTER, DRIVER, Rig, actor_id, group_spec, record

A, B = b"a" * 16, b"b" * 16


@pytest.fixture
def rig():
    return Rig()


def add_job(rig, **fields):
    job = g.JobRecord(driver_id=DRIVER, driver_address="host:9", **fields)
    return rig.do(rig.core.add_job, job)


def test_the_first_item_of_a_session_is_the_welcome_and_the_node_is_durable(rig):
    rig.join(A, 1, is_scheduler=True)
    assert rig.told[1][0].welcome.cluster_id == CLUSTER
    assert rig.told[1][0].welcome.scheduler_address == "host-61:1"
    assert t.NodeRecord.FromString(rig.rows[tables.NODE][A]).state == t.NODE_STATE_ALIVE


def test_an_agent_of_another_cluster_is_refused_and_its_session_closed(rig):
    rig.join(A, 1, cluster=b"x" * 16)
    assert rig.told[1][0].refused.reason == "other_cluster"
    assert rig.closed == [1]
    assert rig.core.membership.nodes.alive_count == 0


@pytest.mark.parametrize("node_id", [b"", b"short"])
def test_a_bad_node_id_is_refused(rig, node_id):
    rig.join(node_id, 1)
    assert rig.told[1][0].refused.reason == "bad_request"


def test_a_refused_connection_after_a_break_is_death_at_once(rig):
    rig.join(A, 1)
    rig.do(rig.core.node_session_closed, 1, [A])
    assert [probe.node_id for probe in rig.take(fx.ProbeNode)] == [A]
    rig.do(rig.core.node_port_refused, A)
    assert rig.node(A).state == t.NODE_STATE_DEAD
    assert rig.node(A).death_cause == t.NODE_DEATH_CAUSE_CRASHED


def test_a_late_report_of_a_refusal_does_not_kill_a_node_that_resumed(rig):
    rig.join(A, 1)
    rig.do(rig.core.node_session_closed, 1, [A])
    rig.join(A, 2, cluster=CLUSTER)
    rig.do(rig.core.node_port_refused, A)
    assert rig.node(A).state == t.NODE_STATE_ALIVE


def test_a_node_that_does_not_resume_in_time_is_dead_and_refused_later(rig):
    rig.join(A, 1)
    rig.do(rig.core.node_session_closed, 1, [A])
    rig.advance(limits.RECONNECT_WINDOW_MS - 1)
    assert rig.node(A).state == t.NODE_STATE_ALIVE
    rig.advance(1)
    assert rig.node(A).state == t.NODE_STATE_DEAD
    rig.join(A, 2, cluster=CLUSTER)
    assert rig.told[2][0].refused.reason == "declared_dead"


def test_the_end_of_a_replaced_session_means_nothing(rig):
    rig.join(A, 1)
    rig.join(A, 2, cluster=CLUSTER)
    assert rig.closed == [1]
    rig.do(rig.core.node_session_closed, 1, [A])
    rig.advance(limits.RECONNECT_WINDOW_MS)
    assert rig.node(A).state == t.NODE_STATE_ALIVE


def test_items_of_a_replaced_session_are_void(rig):
    rig.join(A, 1)
    rig.join(A, 2, cluster=CLUSTER)
    rig.say(A, 1, goodbye=ns.Goodbye())
    assert rig.node(A).state == t.NODE_STATE_ALIVE


def test_a_silent_node_is_pinged_and_then_dead_with_the_evidence(rig):
    rig.join(A, 1)
    rig.advance(100_000)
    assert len(rig.items(1, "ping")) == limits.PINGS_MISSED_MAX
    assert rig.node(A).death_cause == t.NODE_DEATH_CAUSE_MISSED_PINGS
    assert "pings in a row" in rig.node(A).death_message
    assert rig.items(1, "refused")[0].reason == "declared_dead"


def test_a_node_that_answers_pings_lives(rig):
    rig.join(A, 1)
    for _ in range(10):
        rig.advance(limits.PING_INTERVAL_MS)
        rig.say(A, 1, ping_answer=ns.PingAnswer(nonce=1))
    assert rig.node(A).state == t.NODE_STATE_ALIVE


def test_an_agent_hears_whether_a_node_is_in_the_cluster(rig):
    rig.join(A, 1)
    rig.join(B, 2)
    for asked in (B, b"z" * 16):
        rig.say(A, 1, node_question=ns.NodeQuestion(node_id=asked))
    rig.say(B, 2, goodbye=ns.Goodbye(message="bye"))
    rig.say(A, 1, node_question=ns.NodeQuestion(node_id=B))
    told = [(each.node_id, each.alive) for each in rig.items(1, "node_answer")]
    assert told == [(B, True), (b"z" * 16, False), (B, False)]


def test_a_node_is_listed_with_the_resources_that_name_it(rig):
    rig.join(A, 1, address="10.0.0.7:1", is_head=True)
    used = t.ResourceSet(amounts={"node:10.0.0.7": 100})
    total = t.ResourceSet(amounts={"CPU": 40_000})
    rig.say(A, 1, snapshot=ns.ResourceSnapshot(version=2, total=total, identity_used=used))
    (listed,) = rig.core.membership.nodes.rows(alive_only=True, limit=0)
    assert dict(listed.total.amounts) == {
        "CPU": 40_000,
        "node:10.0.0.7": 10_000,
        "node:__internal_head__": 10_000,
    }
    assert listed.available.amounts["node:10.0.0.7"] == 9_900
    assert listed.available.amounts["node:__internal_head__"] == 10_000
    assert "node:10.0.0.7" not in rig.core.placement.room_of(A)


def test_goodbye_is_an_expected_death(rig):
    rig.join(A, 1)
    rig.say(A, 1, goodbye=ns.Goodbye(message="stopped"))
    assert rig.node(A).death_cause == t.NODE_DEATH_CAUSE_EXPECTED
    assert rig.node(A).death_message == "stopped"


def test_dead_nodes_are_kept_up_to_a_cap(rig, monkeypatch):
    monkeypatch.setattr(limits, "DEAD_NODES_MAX", 3)
    for number in range(5):
        rig.join(bytes([number]) * 16, number + 1)
        rig.say(bytes([number]) * 16, number + 1, goodbye=ns.Goodbye())
    assert rig.core.membership.nodes.dead_count == 3
    assert len(rig.rows[tables.NODE]) == 3


def test_after_a_restart_nodes_have_a_window_and_the_others_are_dead(rig):
    rig.join(A, 1)
    rig.join(B, 2)
    second = rig.restarted()
    assert {probe.node_id for probe in second.take(fx.ProbeNode)} == {A, B}
    second.join(A, 1, cluster=CLUSTER)
    assert second.told[1][0].welcome.epoch == 2
    second.advance(limits.RECONNECT_WINDOW_MS)
    assert second.node(A).state == t.NODE_STATE_ALIVE
    assert second.node(B).state == t.NODE_STATE_DEAD


def test_revisions_of_a_later_life_are_higher(rig):
    rig.join(A, 1)
    before = rig.node(A).revision
    second = rig.restarted()
    second.join(A, 1, cluster=CLUSTER)
    assert second.node(A).revision > before


def test_jobs_are_numbered_across_restarts_and_idempotent_by_driver(rig):
    first = add_job(rig)
    assert add_job(rig).job_id == first.job_id
    second = rig.restarted()
    other = second.do(second.core.add_job, g.JobRecord(driver_id=b"e" * 16))
    assert other.job_id > first.job_id


def test_the_number_of_a_forgotten_job_is_not_used_again(rig, monkeypatch):
    monkeypatch.setattr(limits, "JOBS_FINISHED_MAX", 0)
    job = add_job(rig)
    rig.do(rig.core.finish_job, job.job_id)
    assert rig.rows[tables.JOB] == {}
    second = rig.restarted()
    assert second.do(second.core.add_job, g.JobRecord(driver_id=b"e" * 16)).job_id > job.job_id


def test_the_end_of_a_driver_ends_its_job_its_actors_and_frees_their_names(rig):
    rig.join(A, 1)
    job = add_job(rig)
    rig.do(rig.core.actor_desk.register_named, record(1, "name"))
    rig.say(A, 1, owner_ended=ns.OwnerEnded(owner_id=DRIVER, is_driver=True))
    assert rig.core.jobs.get(job.job_id).is_dead
    assert rig.actor(actor_id(1)).death.cause == t.ACTOR_DEATH_CAUSE_OWNER_DIED
    assert rig.core.actors.by_name("", "name") is None
    assert [effect.owner_ids for effect in rig.take(fx.OwnersEnded)] == [(DRIVER,)]


def test_what_arrives_after_its_senders_death_is_refused(rig):
    rig.join(A, 1)
    rig.say(A, 1, owner_ended=ns.OwnerEnded(owner_id=DRIVER))
    assert add_job(rig).code == fx.OWNER_DEAD
    assert rig.do(rig.core.actor_desk.register_named, record(1, "n")).code == fx.OWNER_DEAD
    rig.do(rig.core.group_frame, 5, [pg.GroupRequest(create=group_spec(1))])
    assert rig.told[5][0].refusal.reason == "owner_dead"


def test_an_agent_that_was_away_hears_of_owners_that_ended_meanwhile(rig):
    rig.join(A, 1)
    rig.join(B, 2)
    rig.say(A, 1, owner_ended=ns.OwnerEnded(owner_id=DRIVER))
    rig.join(B, 3, cluster=CLUSTER, owner_ids=[DRIVER, b"x" * 16])
    assert list(rig.items(3, "owners_died")[0].owner_ids) == [DRIVER]


def test_a_driver_whose_node_died_is_probed_and_ends_when_it_does_not_answer(rig):
    rig.join(A, 1)
    job = add_job(rig, home_node_id=A)
    rig.say(A, 1, goodbye=ns.Goodbye())
    assert [probe.address for probe in rig.take(fx.ProbeDriver)] == ["host:9"]
    assert not rig.core.jobs.get(job.job_id).is_dead
    rig.do(rig.core.driver_gone, job.job_id)
    assert rig.core.jobs.get(job.job_id).is_dead


def test_a_driver_its_agent_does_not_reach_is_asked_itself(rig):
    rig.join(A, 1)
    job = add_job(rig)
    rig.say(A, 1, owner_ended=ns.OwnerEnded(owner_id=DRIVER, is_driver=True, suspected=True))
    probes = rig.take(fx.ProbeDriver)
    assert [(each.address, each.silence_counts, each.must_speak) for each in probes] == [
        ("host:9", True, True)
    ]
    assert not rig.core.jobs.get(job.job_id).is_dead
    rig.do(rig.core.driver_gone, job.job_id)
    assert [effect.owner_ids for effect in rig.take(fx.OwnersEnded)] == [(DRIVER,)]


def test_a_suspected_owner_that_is_no_running_driver_is_dead(rig):
    rig.join(A, 1)
    rig.say(A, 1, owner_ended=ns.OwnerEnded(owner_id=DRIVER, is_driver=True, suspected=True))
    assert rig.take(fx.ProbeDriver) == []
    assert [effect.owner_ids for effect in rig.take(fx.OwnersEnded)] == [(DRIVER,)]


def test_workers_on_a_dead_node_are_dead_owners(rig):
    rig.join(A, 1)
    worker = b"w" * 16
    alive = {"node_id": A, "worker_id": worker, "state": t.ACTOR_STATE_ALIVE}
    rig.do(rig.core.actor_desk.report, DRIVER, [record(1, **alive)])
    rig.say(A, 1, goodbye=ns.Goodbye())
    assert [effect.owner_ids for effect in rig.take(fx.OwnersEnded)] == [(worker,)]


def test_a_finished_job_takes_its_groups_along(rig):
    rig.join(A, 1)
    job = add_job(rig)
    spec = group_spec(1, job_id=job.job_id)
    rig.do(rig.core.group_frame, 5, [pg.GroupRequest(create=spec)])
    rig.answer_bundles(A, 1)
    assert rig.told[5][-1].group.state == pg.PLACEMENT_GROUP_STATE_CREATED
    rig.do(rig.core.finish_job, job.job_id)
    rig.answer_bundles(A, 1)
    assert rig.told[5][-1].group.state == pg.PLACEMENT_GROUP_STATE_REMOVED
    assert rig.rows[tables.PLACEMENT_GROUP] == {}


def test_what_follows_from_a_written_death_is_made_up_for_after_a_restart(rig):
    """The service died between writing a node's death and carrying out what follows."""
    rig.join(A, 1)
    add_job(rig, home_node_id=A)
    alive = {"node_id": A, "worker_id": b"w" * 16, "state": t.ACTOR_STATE_ALIVE}
    owned = record(2, "n", owner_id=b"w" * 16)
    rig.do(rig.core.actor_desk.report, DRIVER, [record(1, **alive)])
    rig.do(rig.core.actor_desk.register_named, owned)
    dead = rig.node(A)
    dead.state = t.NODE_STATE_DEAD
    rig.rows[tables.NODE][A] = dead.SerializeToString()
    second = rig.restarted()
    assert [probe.address for probe in second.take(fx.ProbeDriver)] == ["host:9"]
    assert second.core.actors.by_name("", "n") is None


def test_an_agent_started_anew_at_the_same_address_ends_its_predecessor(rig):
    rig.join(A, 1, address="host:1")
    rig.do(rig.core.node_session_closed, 1, [A])
    rig.join(B, 2, address="host:1")
    assert rig.node(A).state == t.NODE_STATE_DEAD
    assert rig.node(B).state == t.NODE_STATE_ALIVE


def test_two_connected_nodes_may_state_the_same_address(rig):
    """Containers that advertise badly must not end each other."""
    rig.join(A, 1, address="127.0.0.1:1")
    rig.join(B, 2, address="127.0.0.1:1")
    assert rig.core.membership.nodes.alive_count == 2


def test_owners_that_ended_are_dead_in_the_next_life_too_and_forgotten_in_time(rig):
    rig.do(rig.core.add_job, g.JobRecord(driver_id=DRIVER))
    rig.join(A, 1)
    rig.say(A, 1, owner_ended=ns.OwnerEnded(owner_id=DRIVER, is_driver=True))
    second = rig.restarted()
    assert second.core.owners.is_dead(DRIVER)
    refused = second.do(second.core.add_job, g.JobRecord(driver_id=DRIVER))
    assert isinstance(refused, fx.Refusal)
    # An agent that was away and still holds leases of it is told.
    second.join(A, 1, owner_ids=[DRIVER])
    assert [list(died.owner_ids) for died in second.items(1, "owners_died")] == [[DRIVER]]
    second.now_ms += limits.OWNER_TOMBSTONE_MS + 1
    third = second.restarted()
    assert not third.core.owners.is_dead(DRIVER)
    assert third.rows[tables.OWNER] == {}


def test_the_number_of_running_jobs_is_bounded(rig, monkeypatch):
    monkeypatch.setattr(limits, "JOBS_RUNNING_MAX", 1)
    rig.do(rig.core.add_job, g.JobRecord(driver_id=DRIVER))
    refused = rig.do(rig.core.add_job, g.JobRecord(driver_id=b"e" * 16))
    assert refused.code == fx.TABLE_FULL


def test_who_watches_too_much_is_cut_off_and_a_removed_group_is_not_watched(rig, monkeypatch):
    monkeypatch.setattr(limits, "WATCHES_MAX", 1)
    rig.do(rig.core.group_frame, 5, [pg.GroupRequest(watch=actor_id(1))])
    rig.do(rig.core.group_frame, 6, [pg.GroupRequest(watch=actor_id(2))])
    assert rig.closed == [6]
    rig.do(rig.core.group_frame, 5, [pg.GroupRequest(create=group_spec(1))])
    rig.do(rig.core.group_frame, 5, [pg.GroupRequest(remove=actor_id(1))])
    assert rig.core.groups.watches == 0
