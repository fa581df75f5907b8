"""Requests that are sent, again and again, to an agent that is gone: they go round at a pace."""

from __future__ import annotations

import pytest

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from driver_client import limits
from driver_client.core.lost_agents import LostAgents
from tests.unit.driver_client.core.test_lease_routes import FAR, HOME, SCHEDULER, Owner, redirect

FAR_ID = b"f" * 28


@pytest.fixture
def owner():
    made = Owner()
    made.requests()
    return made


def sent_to_a_lost_scheduler(owner):
    """A request whose home agent names a scheduler that was just lost."""
    lease_id = owner.ask(1)
    redirect(owner, lease_id, SCHEDULER, to_scheduler=True)
    owner.requests()
    owner.lose(SCHEDULER)
    assert owner.requests() == [(HOME, False, [])]  # the home agent may know another one
    redirect(owner, lease_id, SCHEDULER, to_scheduler=True)
    assert owner.requests() == []
    return lease_id


def test_a_scheduler_that_is_named_again_is_tried_at_a_pace_that_slows_down(owner):
    lease_id = sent_to_a_lost_scheduler(owner)
    delays = []
    while not delays or delays[-1] < limits.LOST_AGENT_RETRY_MS_MAX:
        (delay_ms,) = owner.looks_ms  # one timer, whatever waits
        delays.append(delay_ms)
        owner.look_again()
        assert owner.requests() == [(HOME, False, [])]
        redirect(owner, lease_id, SCHEDULER, to_scheduler=True)
        assert owner.requests() == [(SCHEDULER, False, [])]
        owner.lose(SCHEDULER)
        assert owner.requests() == []
    assert delays[0] == limits.LOST_AGENT_RETRY_MS_MIN
    assert delays == sorted(delays)


def test_a_request_goes_to_the_next_scheduler_as_soon_as_it_is_known(owner):
    sent_to_a_lost_scheduler(owner)
    node = t.NodeRecord(node_id=FAR_ID, state=t.NODE_STATE_ALIVE)
    owner.say(HOME, node_change=ns.NodeChange(node=node, scheduler_address=FAR))
    assert owner.requests() == [(FAR, False, [])]


def test_a_scheduler_that_is_only_named_is_no_reason_to_hurry(owner):
    sent_to_a_lost_scheduler(owner)
    node = t.NodeRecord(node_id=FAR_ID, state=t.NODE_STATE_ALIVE)
    owner.say(HOME, node_change=ns.NodeChange(node=node, scheduler_address=SCHEDULER))
    assert owner.requests() == []


def test_a_scheduler_that_answers_again_is_no_lost_agent_any_more(owner):
    lease_id = sent_to_a_lost_scheduler(owner)
    owner.look_again()
    redirect(owner, lease_id, SCHEDULER, to_scheduler=True)
    owner.welcome(SCHEDULER)
    owner.requests()
    assert not owner.routes.lost_agents.is_known(SCHEDULER)
    owner.lose(SCHEDULER)
    assert owner.requests() == [(HOME, False, [])]


def test_a_request_that_waits_is_asked_at_the_next_home(owner):
    sent_to_a_lost_scheduler(owner)
    owner.lose(HOME)
    owner.routes.move_home(FAR)
    owner.run()
    assert owner.requests() == [(FAR, False, [])]
    owner.look_again()
    assert owner.requests() == []


def test_a_request_that_waits_can_be_withdrawn(owner):
    lease_id = sent_to_a_lost_scheduler(owner)
    owner.routes.cancel([lease_id])
    owner.look_again()
    assert owner.requests() == []


def test_the_scheduler_hears_that_the_process_of_the_node_it_picked_has_ended(owner):
    lease_id = owner.ask(1)
    redirect(owner, lease_id, SCHEDULER, to_scheduler=True)
    redirect(owner, lease_id, FAR, node_id=FAR_ID)
    owner.requests()
    owner.lose(FAR, gone=True)
    assert owner.requests() == [(SCHEDULER, False, [])]
    redirect(owner, lease_id, FAR, node_id=FAR_ID)
    assert owner.requests() == [(SCHEDULER, False, [FAR_ID])]
    redirect(owner, lease_id, FAR, node_id=FAR_ID)
    assert owner.requests() == []


def test_a_node_that_is_only_cut_off_may_have_granted_so_no_other_is_asked(owner):
    lease_id = owner.ask(1)
    redirect(owner, lease_id, SCHEDULER, to_scheduler=True)
    redirect(owner, lease_id, FAR, node_id=FAR_ID)
    owner.lose(FAR)
    owner.requests()
    redirect(owner, lease_id, FAR, node_id=FAR_ID)
    assert owner.requests() == []


def test_addresses_are_remembered_up_to_a_cap(monkeypatch):
    monkeypatch.setattr(limits, "LOST_AGENTS_REMEMBERED_MAX", 2)
    lost = LostAgents(Owner().routes.effects, lambda _lease_id: None)
    for address in ("a:1", "b:1", "c:1"):
        lost.lost(address, gone=True)
    assert [lost.is_known(address) for address in ("a:1", "b:1", "c:1")] == [False, True, True]
