"""Owners whose sessions break: suspected, dead, away, and back."""

from __future__ import annotations

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from raylet_agent import limits
from tests.unit.raylet_agent.agent_world import OTHER, OWNER, lease_id


def ended_owners(world):
    """What the GCS was told: (owner, whether it is only suspected)."""
    told = [item.owner_ended for item in world.gcs_items if item.HasField("owner_ended")]
    return [(each.owner_id, each.suspected) for each in told]


def test_a_driver_whose_home_session_stays_broken_is_suspected_not_dead(world):
    """The GCS asks it; until it says more, nothing of the driver's ends."""
    asked = world.ask(1)
    worker = world.items("grant")[0].worker_id
    world.core.session_lost(OWNER, world.now_ms)
    world.advance(limits.OWNER_REOPEN_MS - 1)
    assert ended_owners(world) == []
    world.advance(1)
    assert ended_owners(world) == [(OWNER, True)]
    assert world.killed == []
    assert list(world.open(held=[asked]).unknown_lease_ids) == []
    world.advance(limits.OWNER_AWAY_MS)
    assert ended_owners(world) == [(OWNER, True)]
    assert world.killed == []
    world.gcs(owners_died=n.OwnersDied(owner_ids=[OWNER]))
    assert world.killed == [worker]


def test_a_connected_owner_hears_that_it_counts_as_dead(world):
    world.gcs(owners_died=n.OwnersDied(owner_ids=[OWNER]))
    refused = world.items("refused")
    assert [(one.reason, OWNER.hex() in one.message) for one in refused] == [
        ("declared_dead", True)
    ]
    world.gcs(owners_died=n.OwnersDied(owner_ids=[OWNER]))
    assert world.items("refused") == []


@pytest.mark.parametrize("home", [True, False])
def test_an_owner_that_stays_away_loses_what_it_holds_here_and_may_come_back(world, home):
    world.open(OTHER, home=home)
    asked = world.ask(1, OTHER)
    worker = world.items("grant", OTHER)[0].worker_id
    lose(world, OTHER)
    world.advance(limits.OWNER_AWAY_MS - 1)
    assert world.killed == []
    world.advance(1)
    assert world.killed == [worker]
    assert world.free() == 4
    welcome = world.open(OTHER, held=[asked])
    assert list(welcome.unknown_lease_ids) == [asked]
    assert (OTHER, False) not in ended_owners(world)


def test_a_dead_owner_is_refused(world):
    world.gcs(owners_died=n.OwnersDied(owner_ids=[OWNER]))
    assert world.open() is None
    world.ask(1)
    assert world.items("failed")[0].reason == a.LEASE_FAILURE_OWNER_DEAD


def test_a_reopened_home_session_goes_on(world):
    asked = world.ask(1)
    world.core.session_lost(OWNER, world.now_ms)
    world.advance(limits.OWNER_REOPEN_MS - 1)
    welcome = world.open(held=[asked, lease_id(9)])
    world.advance(limits.OWNER_REOPEN_MS)
    assert list(welcome.unknown_lease_ids) == [lease_id(9)]
    assert world.killed == []
    assert world.free() == 3


def test_a_grant_lost_with_the_session_is_given_back_on_reopening(world):
    world.ask(1)
    world.core.session_lost(OWNER, world.now_ms)
    world.open(held=[])
    assert world.free() == 4


def lose(world, owner):
    world.core.session_lost(owner, world.now_ms)
    world.run()


def probe(world, owner, *, refused):
    world.core.owner_probed(owner, refused=refused, now_ms=world.now_ms)
    world.run()


def test_a_driver_whose_port_is_closed_is_dead_at_once(world):
    world.ask(1)
    worker = world.items("grant")[0].worker_id
    lose(world, OWNER)
    assert world.probed == [OWNER]
    probe(world, OWNER, refused=True)
    assert world.killed == [worker]


def test_a_driver_that_still_listened_while_it_died_is_looked_for_again_soon(world):
    world.ask(1)
    worker = world.items("grant")[0].worker_id
    lose(world, OWNER)
    probe(world, OWNER, refused=False)
    world.advance(limits.OWNER_HOME_PROBE_MS)
    assert world.probed == [OWNER, OWNER]
    assert world.killed == []
    probe(world, OWNER, refused=True)
    assert world.killed == [worker]


def test_the_owner_of_a_broken_session_from_elsewhere_is_looked_for(world):
    world.open(OTHER, home=False)
    world.ask(1, OTHER)
    worker = world.items("grant", OTHER)[0].worker_id
    lose(world, OTHER)
    probe(world, OTHER, refused=False)
    world.advance(limits.OWNER_PROBE_MS)
    assert world.probed == [OTHER, OTHER]
    assert world.killed == []
    probe(world, OTHER, refused=True)
    assert world.killed == [worker]
