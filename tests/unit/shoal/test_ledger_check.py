from itertools import count

from cluster_api.v1 import agent_pb2, node_session_pb2, types_pb2
from shoal.ledger_check import _compare, _settled, _View

GROUP = b"g" * 24


def amounts(**named):
    return types_pb2.ResourceSet(amounts=named)


def held(index):
    return node_session_pb2.HeldBundle(placement_group_id=GROUP, index=index, committed=True)


def view(bundles=(), room=None, *, all_groups=True, **named):
    record = types_pb2.NodeRecord(total=amounts(CPU=20_000), available=amounts(**named))
    return _View(record, named if room is None else room, set(bundles), all_groups)


def answer(bundles=(), differences=(), **named):
    return agent_pb2.CheckLedgerResponse(
        ok=not differences,
        differences=differences,
        total=amounts(CPU=20_000),
        available=amounts(**named),
        bundles=bundles,
    )


def compare(*sides):
    return list(_compare(*sides).values())


def test_equal_books_have_no_difference_and_group_names_do_not_count():
    ours = answer([held(0)], CPU=10_000, CPU_group_0_ab=10_000)
    assert compare(view({(GROUP.hex(), 0)}, CPU=10_000), ours) == []


def test_bundles_only_one_side_knows_are_named():
    found = compare(view({(GROUP.hex(), 1)}, CPU=1), answer([held(0)], CPU=1))
    assert found == [
        f"holds bundle 0 of group {GROUP.hex()}, of which the GCS knows nothing",
        f"does not hold bundle 1 of group {GROUP.hex()}, the GCS says it does",
    ]


def test_bundles_of_groups_that_were_not_listed_are_no_difference():
    ours = answer([held(0)], CPU=1)
    assert compare(view(CPU=1), ours)
    assert compare(view(all_groups=False, CPU=1), ours) == []


def test_amounts_that_differ_are_shown_from_both_sides():
    assert compare(view(CPU=5_000, room={"CPU": 10_000}), answer(CPU=10_000)) == [
        "available is {CPU: 1} at the agent, {CPU: 0.5} at the GCS"
    ]


def test_a_promise_that_no_snapshot_covers_is_a_difference_of_the_room():
    assert compare(view(CPU=10_000, room={"CPU": 5_000}), answer(CPU=10_000)) == [
        "room for groups is {CPU: 1} at the agent, {CPU: 0.5} at the GCS"
    ]


def test_what_the_agent_found_itself_is_passed_on():
    assert compare(view(CPU=1), answer(differences=["CPU: 1 lost"], CPU=1)) == ["CPU: 1 lost"]


def test_only_a_difference_that_every_look_finds_counts():
    looks = iter(
        [
            (2, 3, {("a", "room"): "a: 1", ("b", "room"): "b: 1"}),
            (2, 4, {("a", "room"): "a: 2", ("c", "room"): "c: 1"}),
            (2, 5, {("c", "room"): "c: 1"}),
        ]
    )
    report = _settled(lambda: next(looks), 60)
    assert (report.nodes, report.bundles, report.differences) == (2, 5, [])


def test_a_difference_that_stays_is_told_as_last_seen():
    numbers = count(1)
    report = _settled(lambda: (1, 0, {("a", "room"): f"a: {next(numbers)}"}), 0.2)
    assert report.differences == [f"a: {next(numbers) - 1}"]
