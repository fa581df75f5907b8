"""Drains of nodes, as the control core decides about them."""

from __future__ import annotations

import pytest

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from gcs_service.core import effects as fx
from gcs_service.core import tables
from gcs_service.core.effects import Refusal
from tests.unit.gcs_service.control_rig import CLUSTER, Rig, group_spec

A, B = b"a" * 16, b"b" * 16


@pytest.fixture
def rig():
    return Rig()


def test_draining_an_unknown_node_is_an_error(rig):
    refused = rig.do(rig.core.drain_node, A, ns.DRAIN_REASON_PREEMPTION, "", 0)
    assert isinstance(refused, Refusal)
    assert refused.code == fx.NOT_FOUND


def test_a_drain_is_durable_told_to_the_agent_and_the_cause_of_its_death(rig):
    rig.join(A, 1)
    assert rig.do(rig.core.drain_node, A, ns.DRAIN_REASON_PREEMPTION, "spot", 5) is True
    assert rig.items(1, "drain")[0].message == "spot"
    second = rig.restarted()
    second.join(A, 1, cluster=CLUSTER)
    assert second.node(A).state == t.NODE_STATE_DRAINING
    assert second.node(A).drain_message == "preemption: spot"
    assert second.items(1, "drain")[0].message == "spot"
    second.say(A, 1, goodbye=ns.Goodbye())
    assert second.node(A).death_cause == t.NODE_DEATH_CAUSE_PREEMPTED
    assert second.node(A).death_message.startswith("preempted (spot): ")
    assert second.rows[tables.DRAIN] == {}


def test_a_goodbye_that_repeats_the_order_is_said_once(rig):
    rig.join(A, 1)
    rig.do(rig.core.drain_node, A, ns.DRAIN_REASON_PREEMPTION, "spot", 5)
    rig.say(A, 1, goodbye=ns.Goodbye(cause=t.NODE_DEATH_CAUSE_PREEMPTED, message="spot"))
    assert rig.node(A).death_message.startswith("preempted: spot; last contact")


def test_an_idle_drain_counts_when_the_agent_has_accepted(rig):
    rig.join(A, 1)
    assert rig.do(rig.core.drain_node, A, ns.DRAIN_REASON_IDLE_TERMINATION, "", 5) is True
    assert rig.node(A).state == t.NODE_STATE_ALIVE
    assert rig.rows[tables.DRAIN] == {}
    rig.say(A, 1, drain_answer=ns.DrainAnswer(accepted=True))
    assert rig.node(A).state == t.NODE_STATE_DRAINING
    assert [effect.accepted for effect in rig.take(fx.DrainSettled)] == [True]
    rig.say(A, 1, goodbye=ns.Goodbye(cause=t.NODE_DEATH_CAUSE_DRAINED_IDLE))
    assert rig.node(A).death_cause == t.NODE_DEATH_CAUSE_DRAINED_IDLE


def test_a_drain_of_a_node_out_of_reach_is_recorded_and_told_when_it_is_back(rig):
    rig.join(A, 1)
    rig.do(rig.core.node_session_closed, 1, [A])
    assert rig.do(rig.core.drain_node, A, ns.DRAIN_REASON_PREEMPTION, "spot", 5) is False
    assert rig.node(A).state == t.NODE_STATE_DRAINING
    rig.join(A, 2, cluster=CLUSTER)
    assert [command.message for command in rig.items(2, "drain")] == ["spot"]


def test_an_idle_drain_ends_with_the_session_that_should_answer_it(rig):
    rig.join(A, 1)
    rig.do(rig.core.drain_node, A, ns.DRAIN_REASON_IDLE_TERMINATION, "", 5)
    rig.do(rig.core.node_session_closed, 1, [A])
    assert [effect.accepted for effect in rig.take(fx.DrainSettled)] == [False]
    rig.join(A, 2, cluster=CLUSTER)
    assert rig.node(A).state == t.NODE_STATE_ALIVE
    assert rig.items(2, "drain") == []


def test_a_late_acceptance_of_a_withdrawn_drain_is_undone(rig):
    rig.join(A, 1)
    rig.do(rig.core.drain_node, A, ns.DRAIN_REASON_IDLE_TERMINATION, "", 5)
    rig.do(rig.core.withdraw_drain, A)
    assert [command.cancel for command in rig.items(1, "drain")] == [False, True]
    rig.say(A, 1, drain_answer=ns.DrainAnswer(accepted=True))
    assert rig.node(A).state == t.NODE_STATE_ALIVE


def test_a_node_that_drains_by_itself_is_marked_and_was_preempted(rig):
    rig.join(A, 1)
    answer = ns.DrainAnswer(
        accepted=True, message="SIGTERM", reason=ns.DRAIN_REASON_PREEMPTION, deadline_ms=9
    )
    rig.say(A, 1, drain_answer=answer)
    assert rig.node(A).state == t.NODE_STATE_DRAINING
    assert rig.items(1, "drain") == []
    second = rig.restarted()
    second.join(A, 1, cluster=CLUSTER)
    second.say(A, 1, goodbye=ns.Goodbye(cause=t.NODE_DEATH_CAUSE_PREEMPTED))
    assert second.node(A).death_cause == t.NODE_DEATH_CAUSE_PREEMPTED


def test_no_group_is_placed_on_a_draining_node(rig):
    rig.join(A, 1)
    rig.do(rig.core.drain_node, A, ns.DRAIN_REASON_PREEMPTION, "", 0)
    create = pg.GroupRequest(create=group_spec(1))
    rig.do(rig.core.group_frame, 9, [create])
    assert rig.items(1, "bundle") == []


def test_a_declined_drain_makes_the_node_usable_again(rig):
    rig.join(A, 1)
    rig.do(rig.core.drain_node, A, ns.DRAIN_REASON_IDLE_TERMINATION, "", 0)
    rig.say(A, 1, drain_answer=ns.DrainAnswer(accepted=False))
    assert rig.node(A).state == t.NODE_STATE_ALIVE
    rig.do(rig.core.group_frame, 9, [pg.GroupRequest(create=group_spec(1))])
    assert len(rig.items(1, "bundle")) == 1
