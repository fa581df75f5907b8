from cluster_api.v1 import agent_pb2, node_session_pb2, types_pb2
from shoal.ledger_check import _compare

GROUP = b"g" * 24


def amounts(**named):
    return types_pb2.ResourceSet(amounts=named)


def held(index):
    return node_session_pb2.HeldBundle(placement_group_id=GROUP, index=index, committed=True)


def node(**named):
    return types_pb2.NodeRecord(total=amounts(CPU=20_000), available=amounts(**named))


def answer(bundles=(), differences=(), **named):
    return agent_pb2.CheckLedgerResponse(
        ok=not differences,
        differences=differences,
        total=amounts(CPU=20_000),
        available=amounts(**named),
        bundles=bundles,
    )


def test_equal_books_have_no_difference_and_group_names_do_not_count():
    ours = answer([held(0)], CPU=10_000, CPU_group_0_ab=10_000)
    assert _compare(node(CPU=10_000), ours, {(GROUP.hex(), 0)}) == []


def test_bundles_only_one_side_knows_are_named():
    found = _compare(node(CPU=1), answer([held(0)], CPU=1), {(GROUP.hex(), 1)})
    assert found == [
        f"holds bundle 0 of group {GROUP.hex()}, of which the GCS knows nothing",
        f"does not hold bundle 1 of group {GROUP.hex()}, the GCS says it does",
    ]


def test_amounts_that_differ_are_shown_from_both_sides():
    found = _compare(node(CPU=5_000), answer(CPU=10_000), set())
    assert found == ["available is {CPU: 1} at the agent, {CPU: 0.5} at the GCS"]


def test_what_the_agent_found_itself_is_passed_on():
    assert _compare(node(CPU=1), answer(differences=["CPU: 1 lost"], CPU=1), set()) == [
        "CPU: 1 lost"
    ]
