"""Resources that name the node: real in its books, left out of what makes nodes alike."""

from __future__ import annotations

import pytest

from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent.settings import parse_total
from tests.unit.raylet_agent.agent_world import World, view

A, B = b"a" * 16, b"b" * 16
HERE_NAME = "node:here"


@pytest.fixture
def agent():
    made = World(CPU=4)
    made.open()
    yield made
    made.check()


@pytest.fixture
def head():
    """A scheduler with 1 CPU of its own."""
    made = World(scheduler=True, CPU=1)
    made.open()
    yield made
    made.check()


def test_snapshots_say_only_what_is_in_use_of_them(agent):
    before = agent.core.snapshots.build()
    assert dict(before.total.amounts) == {"CPU": 40_000}
    assert not before.HasField("identity_used")
    asked = agent.ask(1, resources={HERE_NAME: 0.01})
    assert agent.heard() == [("grant", asked)]
    after = agent.core.snapshots.build()
    assert dict(after.available.amounts) == {"CPU": 40_000}
    assert dict(after.identity_used.amounts) == {HERE_NAME: 100}
    agent.give_back(asked)
    assert not agent.core.snapshots.build().HasField("identity_used")


def test_a_name_is_used_up_and_waited_for(agent):
    first, second = (agent.ask(number, resources={HERE_NAME: 0.6}) for number in (1, 2))
    assert agent.heard() == [("grant", first)]
    agent.give_back(first)
    assert agent.heard() == [("grant", second)]


def test_a_bundle_with_a_name_makes_its_group_resource(agent):
    assert agent.bundle(n.BUNDLE_ACTION_PREPARE_AND_COMMIT, b0={HERE_NAME: 0.5}).ok
    total = agent.core.ledger.totals(with_groups=True)
    assert total[f"{HERE_NAME}_group_0_{(b'g' * 24).hex()}"] == 5_000
    assert dict(agent.core.snapshots.build().identity_used.amounts) == {HERE_NAME: 5_000}


def test_a_scheduler_finds_a_node_by_its_name(head):
    head.gcs(view=view(A, address="10.0.0.1:5"))
    head.gcs(view=view(B, address="10.0.0.2:5"))
    head.ask(1, resources={"node:10.0.0.2": 0.9})
    assert [item.node_id for item in head.items("redirect")] == [B]
    waits = head.ask(2, resources={"node:10.0.0.2": 0.9})
    assert head.heard() == []
    snapshot = n.ResourceSnapshot(
        version=2,
        total=t.ResourceSet(amounts={"CPU": 40_000}),
        available=t.ResourceSet(amounts={"CPU": 40_000}),
        sendings_seen=[n.SendingsSeen(scheduler_id=b"n" * 16, all_up_to=1)],
        identity_used=t.ResourceSet(amounts={"node:10.0.0.2": 9_000}),
    )
    head.gcs(view=n.NodeView(node_id=B, address="10.0.0.2:5", snapshot=snapshot, alive=True))
    assert head.heard() == []
    snapshot.version = 3
    snapshot.ClearField("identity_used")
    head.gcs(view=n.NodeView(node_id=B, address="10.0.0.2:5", snapshot=snapshot, alive=True))
    assert head.heard() == [("redirect", waits)]


def test_a_head_elsewhere_is_found_by_its_role(head):
    far = view(A)
    far.is_head = True
    head.gcs(view=view(B))
    head.gcs(view=far)
    head.ask(1, resources={"node:__internal_head__": 0.01})
    assert [item.node_id for item in head.items("redirect")] == [A]


def test_a_name_in_use_makes_no_node_fuller(head):
    head.gcs(view=view(A))
    known = head.core.views.get(A)
    known.available["node:a"] = 0
    assert known.utilisation() == 0
    head.ask(1, resources={HERE_NAME: 1})
    assert head.core.views.own.utilisation() == 0


def test_a_name_that_no_node_has_is_infeasible(head):
    head.ask(1, resources={"node:10.9.9.9": 0.01})
    (pending,) = head.items("pending")
    assert pending.infeasible


def test_no_agent_gives_itself_such_a_resource():
    with pytest.raises(ValueError, match="given to every node"):
        parse_total(
            num_cpus=1, num_gpus=0, memory=0, object_store_memory=0, custom='{"node:1.2.3.4": 1}'
        )
