"""Where lease requests go, step by step: values in, effects out."""

from __future__ import annotations

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from driver_client.core import lease_effects as fx
from driver_client.core.lease_routes import DECLARED_DEAD, LeaseRoutes

HOME, SCHEDULER, FAR = "home:1", "scheduler:1", "far:1"
GROUP = b"g" * 24


class Holder:
    """What it was told, as (kind, lease id or message)."""

    def __init__(self):
        self.told = []
        self.idle = True


class Owner:
    """Routes, and what their shell did so far."""

    def __init__(self):
        self.routes = LeaseRoutes(HOME)
        self.sent = []
        self.opened = []
        self.closed = []
        self.others = []
        self.looks_ms = []
        self.holder = Holder()
        self.routes.open(HOME)
        self.run()

    def run(self):
        effects = self.routes.effects
        while effects:
            self._carry_out(effects.popleft())

    def _carry_out(self, effect):
        match effect:
            case fx.OpenSession(session):
                self.opened.append(session.address)
            case fx.CloseSession(session):
                self.closed.append(session.address)
            case fx.SendItem(session, item):
                kind = item.WhichOneof("item")
                copy = type(item).FromString(item.SerializeToString())
                self.sent.append((session.address, kind, getattr(copy, kind)))
            case fx.Granted(holder, grant):
                holder.told.append(("granted", grant.lease_id))
            case fx.Failed(holder, failed):
                holder.told.append(("failed", failed.reason))
            case fx.Ended(holder, ended):
                holder.told.append(("ended", ended.cause))
            case fx.Draining(holder, lease_id):
                holder.told.append(("draining", lease_id))
            case fx.LookAgain(delay_ms):
                self.looks_ms.append(delay_ms)
            case fx.LookIfIdle(holder, lease_id):
                if holder.idle:
                    self.routes.give_back(lease_id, reason="others wait")
            case _:
                self.others.append(effect)

    def ask(self, number, address="", **fields):
        lease_id = bytes([number])
        request = a.LeaseRequest(lease_id=lease_id, **fields)
        self.routes.request(request, self.holder, address)
        self.run()
        return lease_id

    def say(self, address, **item):
        """An agent says something."""
        self.routes.arrived(self.routes.session_at(address), a.LeaseItem(**item))
        self.run()

    def welcome(self, address, *, again=False, **fields):
        session = self.routes.session_at(address)
        node_id = address[:4].encode()
        self.routes.welcomed(session, a.AgentWelcome(node_id=node_id, **fields), again=again)
        self.run()

    def lose(self, address, *, gone=False):
        self.routes.lost(self.routes.session_at(address), "it broke", gone=gone)
        self.run()

    def look_again(self):
        self.looks_ms.clear()
        self.routes.lost_agents.look_again()
        self.run()

    def grant(self, lease_id, address=HOME):
        self.say(address, grant=a.LeaseGrant(lease_id=lease_id))

    def requests(self):
        """(address, grant or reject, refused by) of everything asked since the last call."""
        asked = [(where, item) for where, kind, item in self.sent if kind == "request"]
        self.sent.clear()
        return [(where, item.grant_or_reject, list(item.rejected_by)) for where, item in asked]


@pytest.fixture
def owner():
    return Owner()


def redirect(owner, lease_id, address, *, to_scheduler=False, node_id=b""):
    item = a.LeaseRedirect(
        lease_id=lease_id, address=address, to_scheduler=to_scheduler, node_id=node_id
    )
    owner.say(HOME, redirect=item)


def test_a_request_goes_home_by_the_scheduler_to_a_node_and_back_when_it_is_rejected(owner):
    lease_id = owner.ask(1)
    redirect(owner, lease_id, SCHEDULER, to_scheduler=True)
    redirect(owner, lease_id, FAR)
    owner.say(FAR, reject=a.LeaseReject(lease_id=lease_id, node_id=b"far"))
    assert owner.requests() == [
        (HOME, False, []),
        (SCHEDULER, False, []),
        (FAR, True, []),
        (SCHEDULER, False, [b"far"]),
    ]
    owner.grant(lease_id, SCHEDULER)
    assert owner.holder.told == [("granted", lease_id)]
    assert owner.opened == [HOME, SCHEDULER, FAR]


def test_the_number_goes_to_the_node_and_what_the_node_said_back_to_the_scheduler(owner):
    lease_id = owner.ask(1)
    sending = a.Sending(scheduler_id=b"s", number=3)
    owner.say(HOME, redirect=a.LeaseRedirect(lease_id=lease_id, address=FAR, sending=sending))
    reject = a.LeaseReject(lease_id=lease_id, node_id=b"far")
    reject.snapshot.version = 9
    owner.say(FAR, reject=reject)
    owner.say(HOME, redirect=a.LeaseRedirect(lease_id=lease_id, address=FAR, sending=sending))
    asked = [item for _, kind, item in owner.sent if kind == "request"][1:]
    assert [item.HasField("sending") for item in asked] == [True, False, True]
    assert [item.rejection.snapshot.version for item in asked] == [0, 9, 0]


def test_a_request_of_a_bundle_goes_straight_to_its_agent_and_fails_with_it(owner):
    owner.ask(1, FAR, placement_group_id=GROUP)
    assert owner.requests() == [(FAR, False, [])]
    owner.lose(FAR)
    assert owner.holder.told == [("failed", a.LEASE_FAILURE_BUNDLE_NOT_HERE)]


def test_a_request_whose_agent_is_lost_goes_to_the_scheduler(owner):
    lease_id = owner.ask(1)
    redirect(owner, lease_id, SCHEDULER, to_scheduler=True)
    redirect(owner, lease_id, FAR)
    owner.requests()
    owner.lose(FAR)
    assert owner.requests() == [(SCHEDULER, False, [])]
    owner.lose(SCHEDULER)
    assert owner.requests() == [(HOME, False, [])]


def test_what_waits_at_a_lost_home_waits_for_the_next_one(owner):
    waiting, running = owner.ask(1), owner.ask(2)
    owner.grant(running)
    owner.requests()
    owner.lose(HOME)
    assert owner.holder.told[-1] == ("ended", a.WORKER_END_CAUSE_NODE_DIED)
    assert [type(effect) for effect in owner.others] == [fx.HomeLost]
    assert owner.requests() == []
    owner.routes.move_home(FAR)
    owner.run()
    assert owner.requests() == [(FAR, False, [])]
    assert list(owner.routes.leases) == [waiting]


def test_without_any_home_what_waits_fails(owner):
    owner.ask(1)
    owner.lose(HOME)
    owner.routes.homeless("nobody is left")
    owner.run()
    assert owner.holder.told == [("failed", a.LEASE_FAILURE_UNSPECIFIED)]


def test_after_a_reconnect_requests_are_repeated_and_what_the_agent_lost_is_over(owner):
    first, second = owner.ask(1), owner.ask(2)
    owner.grant(first)
    assert owner.routes.held_at(owner.routes.session_at(HOME)) == [first]
    owner.requests()
    owner.welcome(HOME)
    assert owner.requests() == []
    owner.welcome(HOME, again=True, unknown_lease_ids=[first])
    assert owner.requests() == [(HOME, False, [])]
    assert owner.holder.told[-1] == ("ended", a.WORKER_END_CAUSE_CRASHED)
    assert list(owner.routes.leases) == [second]


def test_a_grant_that_is_not_wanted_any_more_goes_back(owner):
    lease_id = owner.ask(1)
    owner.routes.cancel([lease_id])
    owner.grant(lease_id)
    assert [kind for _, kind, _ in owner.sent] == ["request", "cancel", "return_lease"]
    assert owner.holder.told == []


def test_idle_leases_go_back_when_others_wait_and_the_rest_stays(owner):
    lease_id, busy = owner.ask(1), Holder()
    busy.idle = False
    owner.routes.request(a.LeaseRequest(lease_id=b"busy"), busy)
    owner.run()
    for each in (lease_id, b"busy"):
        owner.grant(each)
    owner.say(HOME, give_back=a.GiveBack())
    assert list(owner.routes.leases) == [b"busy"]


def node(address, state, **fields):
    record = t.NodeRecord(node_id=address[:4].encode(), address=address, state=state, **fields)
    return ns.NodeChange(node=record)


def test_a_node_that_drains_is_told_once_and_its_death_is_a_preemption(owner):
    lease_id = owner.ask(1, FAR)
    owner.welcome(FAR)
    owner.grant(lease_id, FAR)
    for _ in range(2):
        owner.say(HOME, node_change=node(FAR, t.NODE_STATE_DRAINING))
    owner.say(HOME, node_change=node(FAR, t.NODE_STATE_DEAD))
    assert owner.holder.told[1:] == [
        ("draining", lease_id),
        ("ended", a.WORKER_END_CAUSE_PREEMPTED),
    ]
    assert owner.closed == [FAR]
    assert owner.routes.session_at(FAR) is None


def test_an_agent_at_the_address_of_a_dead_one_is_another_one(owner):
    owner.ask(1, FAR)
    owner.welcome(FAR)
    change = node(FAR, t.NODE_STATE_DEAD)
    change.node.node_id = b"before"
    owner.say(HOME, node_change=change)
    assert owner.routes.session_at(FAR) is not None


@pytest.mark.parametrize("follows", [True, False])
def test_who_was_declared_dead_hears_it_once_and_loses_all(owner, follows):
    owner.ask(1)
    refused = ns.Refused(reason=DECLARED_DEAD, message="you are dead")
    session = owner.routes.session_at(HOME)
    for _ in range(2):
        owner.routes.refused(session, refused, follows_verdict=follows)
        owner.run()
    if follows:
        assert owner.others == [fx.DeclaredDead("you are dead")]
        owner.routes.end_all("dead")
        owner.run()
        assert owner.holder.told == [("failed", a.LEASE_FAILURE_OWNER_DEAD)]
    else:
        assert owner.holder.told == [("failed", a.LEASE_FAILURE_UNSPECIFIED)]
    assert owner.closed == [HOME]


def test_what_waits_hears_the_verdict_and_not_what_agents_say_before_it(owner):
    """The home agent's last frame, a request and the loss of another agent come in between."""
    first, bundle = owner.ask(1), owner.ask(2, FAR, placement_group_id=GROUP)
    home, far = (owner.routes.session_at(address) for address in (HOME, FAR))
    refused = ns.Refused(reason=DECLARED_DEAD, message="you are dead")
    owner.routes.refused(home, refused, follows_verdict=True)
    failed = a.LeaseFailed(lease_id=first, reason=a.LEASE_FAILURE_OWNER_DEAD)
    owner.routes.arrived(home, a.LeaseItem(failed=failed))
    asked = len(owner.sent)
    late = owner.ask(3)
    to = a.LeaseRedirect(lease_id=bundle, address=SCHEDULER, to_scheduler=True)
    owner.say(FAR, redirect=to)
    owner.routes.lost(far, "nobody listens")
    owner.run()
    assert (owner.holder.told, owner.sent[asked:]) == ([], [])
    assert owner.others == [fx.DeclaredDead("you are dead")]
    assert list(owner.routes.leases) == [first, bundle, late]
    owner.routes.end_all("this is why")
    owner.run()
    assert owner.holder.told == [("failed", a.LEASE_FAILURE_OWNER_DEAD)] * 3
    assert owner.routes.leases == {}
    assert owner.routes.verdict == "this is why"


def test_what_an_agent_says_behind_its_end_does_not_count(owner):
    lease_id = owner.ask(1, FAR)
    far = owner.routes.session_at(FAR)
    owner.routes.lost(far, "nobody listens")
    owner.run()
    owner.routes.arrived(far, a.LeaseItem(grant=a.LeaseGrant(lease_id=lease_id)))
    owner.run()
    assert owner.holder.told == []
    assert owner.requests()[-1][0] == HOME


def test_how_much_waits_behind_a_request_is_told_once(owner):
    lease_id = owner.ask(1, backlog=a.Backlog(key=1, count=5))
    redirect(owner, lease_id, SCHEDULER, to_scheduler=True)
    backlogs = [item.HasField("backlog") for _, kind, item in owner.sent if kind == "request"]
    assert backlogs == [True, False]
    assert [type(effect) for effect in owner.others] == [fx.Moved]
    assert owner.routes.where_asked([lease_id]) == {SCHEDULER}
