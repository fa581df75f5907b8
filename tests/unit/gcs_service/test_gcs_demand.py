"""The demand table: one moment a snapshot, nothing counted twice or lost on its way."""

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core import tables
from gcs_service.core.demand_facts import DemandUpdate, NodeFact
from gcs_service.core.demand_table import DemandTable
from gcs_service.core.resource_state import decode_state, encode_response
from tests.unit.gcs_service.control_rig import Rig

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
CPU = 10_000


def amounts(**values):
    return t.ResourceSet(amounts={name: int(value * CPU) for name, value in values.items()})


def entry(count, **fields):
    return ns.DemandEntry(resources=amounts(CPU=1), count=count, **fields)


def taken(lease_id, *, sender=A, first=1, last=1):
    counted = ns.CountedDemand(node_id=sender, first_version=first, last_version=last)
    return ns.LeaseTaken(lease_id=lease_id, counted=counted, resources=amounts(CPU=1))


def in_transit(lease_id, node_id=B):
    return ns.LeaseInTransit(lease_id=lease_id, node_id=node_id, resources=amounts(CPU=1))


def report(version, count=0, *leases):
    entries = [entry(count)] if count else []
    return ns.DemandReport(version=version, entries=entries, in_transit=leases)


def fact(node_id, *, taken=(), idle_ms=0, free=1.0, room=None, seen_ms=1_000, draining=False):
    snapshot = ns.ResourceSnapshot(
        version=1,
        total=amounts(CPU=1),
        available=amounts(CPU=free),
        idle_ms=idle_ms,
        leases_taken=taken,
        draining=draining,
    )
    record = t.NodeRecord(node_id=node_id, address="host:1", state=t.NODE_STATE_ALIVE)
    room_amounts = {"CPU": int((free if room is None else room) * CPU)}
    return NodeFact(record, snapshot, room_amounts, seen_ms)


def step(table, *, nodes=None, reports=(), groups=None, detached=None):
    table.apply(DemandUpdate(nodes or {}, list(reports), groups or {}, detached))


def counts(table):
    return [(row.count, row.infeasible) for row in table.entries()]


def test_demand_is_summed_over_nodes_and_replaced_by_newer_reports():
    table = DemandTable()
    step(table, reports=[(A, ns.DemandReport(version=1, entries=[entry(3)]))])
    second = ns.DemandReport(version=1, entries=[entry(4), entry(1, infeasible=True)])
    step(table, reports=[(B, second)])
    assert counts(table) == [(7, False), (1, True)]
    step(table, reports=[(A, ns.DemandReport(version=2))])
    step(table, reports=[(A, ns.DemandReport(version=1, entries=[entry(9)]))])
    assert counts(table)[0] == (4, False)
    version = table.version
    step(table, reports=[(B, None)])
    assert table.entries() == []
    assert table.version > version


def test_a_request_on_its_way_is_pending_until_its_node_names_it():
    table = DemandTable()
    step(table, nodes={B: fact(B)}, reports=[(A, report(2, 2, in_transit(b"l")))])
    assert counts(table) == [(3, False)]
    step(table, nodes={B: fact(B, taken=[taken(b"l")], free=0)})
    assert counts(table) == [(2, False)]
    step(table, reports=[(A, report(3, 2))])
    assert counts(table) == [(2, False)]
    assert len(table.taken) == 0


def test_a_request_that_is_taken_before_its_sender_says_so_counts_once():
    """FIELD_REPORTS O-23: the receiver's snapshot overtakes the sender's report."""
    table = DemandTable()
    step(table, nodes={B: fact(B)}, reports=[(A, report(1, 3))])
    step(table, nodes={B: fact(B, taken=[taken(b"l")], free=0)})
    assert counts(table) == [(2, False)]
    # The name is gone from the snapshot, and the sender is still silent.
    step(table, nodes={B: fact(B, free=0)})
    assert counts(table) == [(2, False)]
    step(table, reports=[(A, report(2, 2, in_transit(b"l")))])
    assert counts(table) == [(2, False)]
    step(table, reports=[(A, report(3, 2))])
    assert counts(table) == [(2, False)]
    assert len(table.taken) == 0


def test_only_reports_that_counted_a_request_are_lowered_by_it():
    table = DemandTable()
    step(table, nodes={B: fact(B)}, reports=[(A, report(4, 3))])
    step(table, nodes={B: fact(B, taken=[taken(b"later", first=5, last=6)], free=0)})
    assert counts(table) == [(3, False)]
    step(table, reports=[(A, report(5, 4))])
    assert counts(table) == [(3, False)]


def test_what_is_feasible_is_lowered_first_and_never_below_nothing():
    table = DemandTable()
    first = ns.DemandReport(version=1, entries=[entry(2, infeasible=True), entry(1)])
    step(table, nodes={B: fact(B)}, reports=[(A, first)])
    step(table, nodes={B: fact(B, taken=[taken(b"1"), taken(b"2")], free=0)})
    assert counts(table) == [(1, True)]
    step(table, nodes={B: fact(B, taken=[taken(b"3"), taken(b"4")], free=0)})
    assert counts(table) == []


def test_a_request_sent_on_to_another_node_is_pending_until_that_one_names_it():
    table = DemandTable()
    step(table, nodes={B: fact(B), C: fact(C)}, reports=[(A, report(2, 0, in_transit(b"l")))])
    step(table, nodes={B: fact(B, taken=[taken(b"l")])})
    assert counts(table) == []
    # B drains and sends it back, and C is asked.
    step(table, reports=[(A, report(3, 0, in_transit(b"l", C)))])
    assert counts(table) == [(1, False)]
    step(table, nodes={C: fact(C, taken=[taken(b"l", last=2)])})
    assert counts(table) == []


def test_a_request_sent_to_a_node_that_died_is_pending_again():
    table = DemandTable()
    step(table, nodes={B: fact(B)}, reports=[(A, report(2, 0, in_transit(b"l")))])
    step(table, nodes={B: fact(B, taken=[taken(b"l")])})
    assert counts(table) == []
    step(table, nodes={B: None})
    assert counts(table) == [(1, False)]


def test_idle_time_grows_by_itself_and_a_promise_ends_it():
    table = DemandTable()
    step(table, nodes={A: fact(A, idle_ms=500, seen_ms=1_000)})
    node = decode_state(table, 3_000).node_states[0]
    assert (node.status, node.idle_duration_ms) == (auto.NODE_STATUS_IDLE, 2_500)
    step(table, nodes={A: fact(A, idle_ms=500, room=0.5)})
    node = decode_state(table, 3_000).node_states[0]
    assert (node.status, node.idle_duration_ms) == (auto.NODE_STATUS_RUNNING, 0)
    assert node.available_resources.amounts["CPU"] == CPU // 2


def test_states_of_nodes_are_told_dead_ones_too_up_to_a_limit():
    table = DemandTable()
    step(table, nodes={A: fact(A), B: fact(B, draining=True)})
    step(table, nodes={A: None})
    states = {node.node_id: node.status for node in decode_state(table, 0).node_states}
    assert states == {A: auto.NODE_STATUS_DEAD, B: auto.NODE_STATUS_DRAINING}
    for number in range(limits.DEAD_NODES_MAX + 10):
        node_id = number.to_bytes(16, "big")
        step(table, nodes={node_id: fact(node_id)})
        step(table, nodes={node_id: None})
    assert len(table.dead) == limits.DEAD_NODES_MAX


def test_the_encoded_answer_is_the_message():
    table = DemandTable(7, "session")
    step(table, nodes={bytes([n]) * 16: fact(bytes([n]) * 16, idle_ms=n) for n in range(1, 200)})
    answer = auto.GetClusterResourceStateResponse.FromString(
        encode_response(table, 5_000).SerializeToString()
    )
    state = answer.cluster_resource_state
    assert (len(state.node_states), state.cluster_resource_state_version) == (199, 8)
    assert state.cluster_session_name == "session"
    assert state == decode_state(table, 5_000)


def test_a_constraint_is_durable_replaces_the_last_one_and_is_no_demand():
    table = DemandTable()
    row = auto.ResourceRequestByCount(
        request=auto.ResourceRequest(resources_bundle=amounts(CPU=1)), count=4
    )
    constraint = auto.ClusterResourceConstraint(resource_requests=[row])
    assert table.request_constraint(constraint) is None
    (write,) = table.take_writes()
    assert (write.table, write.key) == (tables.AUTOSCALER, tables.CONSTRAINT)
    later = DemandTable()
    later.load([(write.key, write.value)])
    state = decode_state(later, 0)
    assert state.cluster_resource_constraints[0].resource_requests[0].count == 4
    assert len(state.pending_resource_requests) == 0
    assert later.request_constraint(auto.ClusterResourceConstraint()) is None
    assert later.take_writes()[0].value is None
    assert len(decode_state(later, 0).cluster_resource_constraints) == 0


def test_a_constraint_without_resources_is_refused():
    row = auto.ResourceRequestByCount(count=4)
    refusal = DemandTable().request_constraint(
        auto.ClusterResourceConstraint(resource_requests=[row])
    )
    assert "needs resources" in refusal.message


def test_the_newest_autoscaling_state_stays():
    table = DemandTable()
    version = table.version
    assert table.report_autoscaling(auto.AutoscalingState(autoscaler_state_version=5))
    assert not table.report_autoscaling(auto.AutoscalingState(autoscaler_state_version=4))
    assert table.autoscaling_state.autoscaler_state_version == 5
    assert table.version == version


def test_the_core_feeds_every_change_in_one_step():
    """A node joins, reports demand, dies: the table sees each, and the demand goes with it."""
    rig = Rig()
    table = DemandTable()

    def settle():
        update = rig.core.take_demand(rig.at())
        if update is not None:
            table.apply(update)

    rig.join(A, 1, cpus=4)
    settle()
    assert [node.status for node in decode_state(table, 0).node_states] != []
    item = ns.AgentItem(node_id=A, demand=report(1, 2))
    rig.core.node_frame(1, [item], rig.at())
    settle()
    assert counts(table) == [(2, False)]
    goodbye = ns.AgentItem(node_id=A, goodbye=ns.Goodbye(message="bye"))
    rig.core.node_frame(1, [goodbye], rig.at())
    settle()
    assert counts(table) == []
    assert table.nodes == {}
    assert rig.core.take_demand(rig.at()) is None


def test_an_agent_that_comes_back_brings_its_demand_along():
    rig = Rig()
    table = DemandTable()

    def settle():
        table.apply(rig.core.take_demand(rig.at()))
        return counts(table)

    rig.join(A, 1)
    rig.say(A, 1, demand=report(1, 3))
    assert settle() == [(3, False)]
    rig.do(rig.core.node_session_closed, 1, [A])
    rig.join(A, 2, cluster=rig.core.identity.cluster_id, demand=report(2, 4))
    assert settle() == [(4, False)]
