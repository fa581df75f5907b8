"""Which bundle's agent is asked."""

from __future__ import annotations

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from driver_client.core import lease_rules as rules
from driver_client.core.bundle_choice import BundleChoice

CREATED = pg.PLACEMENT_GROUP_STATE_CREATED


def group(*bundles, state=CREATED):
    """A record; a bundle is (CPUs, address)."""
    amounts = [t.ResourceSet(amounts={"CPU": cpus}) for cpus, _ in bundles]
    spec = pg.PlacementGroupSpec(bundles=[pg.BundleSpec(resources=each) for each in amounts])
    return pg.PlacementGroupRecord(
        spec=spec, state=state, bundle_addresses=[address for _, address in bundles]
    )


def request(index, cpus=1):
    need = t.ResourceSet(amounts={"CPU": cpus})
    return a.LeaseRequest(bundle_index=index, placement_resources=need)


def test_a_named_bundle_is_where_the_record_says():
    record = group((1, "a:1"), (1, "b:1"))
    choice = BundleChoice()
    assert [choice.address(request(index), record) for index in (1, 0, 2)] == ["b:1", "a:1", ""]


def test_any_bundle_means_in_turn_those_that_are_large_enough_and_placed():
    record = group((4, "a:1"), (1, "b:1"), (4, ""), (4, "d:1"))
    choice = BundleChoice()
    asked = [choice.address(request(-1, cpus=4), record) for _ in range(4)]
    assert sorted(asked) == ["a:1", "a:1", "d:1", "d:1"]


@pytest.mark.parametrize("record", [None, group((1, "a:1"), state=0), group((1, ""))])
def test_who_has_no_place_is_not_asked(record):
    assert BundleChoice().address(request(0), record) == ""


def test_a_bundle_that_is_given_back_while_its_group_lives_is_a_loss_of_its_node():
    removed = a.WORKER_END_CAUSE_PLACEMENT_GROUP_REMOVED
    gone = rules.death_cause(removed, group_is_gone=True)
    assert gone == t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED
    assert rules.death_cause(removed, group_is_gone=False) == t.ACTOR_DEATH_CAUSE_NODE_DIED


def test_every_failure_of_a_lease_is_a_race_final_or_one_loss():
    again = {reason for reason in a.LeaseFailure.values() if rules.is_asked_again(reason)}
    final = {reason for reason in a.LeaseFailure.values() if rules.final_cause(reason) is not None}
    assert again & final == set()
    losses = set(a.LeaseFailure.values()) - again - final
    assert losses == {
        a.LEASE_FAILURE_UNSPECIFIED,
        a.LEASE_FAILURE_WORKER_START_FAILED,
        a.LEASE_FAILURE_BAD_REQUEST,
    }
