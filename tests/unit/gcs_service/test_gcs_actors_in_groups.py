"""Detached actors in placement groups, and groups that actors made."""

from __future__ import annotations

import pytest

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from tests.unit.gcs_service.actor_events import (
    ENDED,
    A,
    alive_actor,
    create,
    event,
    starts,
)
from tests.unit.gcs_service.control_rig import Rig, actor_id, detached, group_spec


@pytest.fixture
def rig():
    return Rig()


def make_group(rig, number=50):
    rig.do(rig.core.group_frame, 9, [pg.GroupRequest(create=group_spec(number))])
    return actor_id(number)


def test_an_actor_of_a_group_waits_for_its_bundle_and_starts_where_it_is(rig):
    rig.join(A, 1)
    group = make_group(rig)
    create(rig, detached(1, group=group))
    assert starts(rig, 1) == []
    rig.answer_bundles(A, 1)
    assert starts(rig, 1) == [(actor_id(1), 1)]


def test_the_end_of_a_group_ends_its_actors_whatever_they_may_restart(rig):
    rig.join(A, 1)
    group = make_group(rig)
    rig.answer_bundles(A, 1)
    alive_actor(rig, group=group, max_restarts=-1, name="n")
    rig.do(rig.core.group_frame, 9, [pg.GroupRequest(remove=group)])
    cause = rig.actor(actor_id(1)).death.cause
    assert cause == t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED
    assert rig.core.actors.by_name("", "n") is None


def test_the_death_of_an_actor_removes_the_groups_it_made(rig):
    rig.join(A, 1)
    alive_actor(rig)
    spec = group_spec(60, creator_actor_id=actor_id(1), creator_actor_detached=True)
    rig.do(rig.core.group_frame, 9, [pg.GroupRequest(create=spec)])
    rig.answer_bundles(A, 1)
    event(rig, A, 1, 1, ENDED)
    rig.answer_bundles(A, 1)
    assert rig.told[9][-1].group.state == pg.PLACEMENT_GROUP_STATE_REMOVED
