"""Placement groups: each strategy, selectors, racks, what runs in them, waiting, removal."""

from __future__ import annotations

import asyncio

import pytest

import shoal
from shoal.exceptions import ActorDiedError, GetTimeoutError
from shoal.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.cluster.conftest import everything_free
from tests.cluster.remote_code import Counter, pass_gate
from tests.cluster.waiting import until, until_gone


@pytest.fixture(autouse=True)
def clean(two_racks):
    """Every group a test makes is gone, and all it held is free, before the next test."""
    yield
    for identity, row in placement_group_table().items():
        if row["state"] != "REMOVED":
            remove_placement_group(
                PlacementGroup(bytes.fromhex(identity), list(row["bundles"].values()))
            )
    until(everything_free, "all resources of removed groups are free")


def placed(group: PlacementGroup) -> list[str]:
    """Hex ids of the nodes of a group that is ready, by bundle."""
    shoal.get(group.ready(), timeout=20)
    nodes = placement_group_table(group)["bundles_to_node_id"]
    return [nodes[index] for index in sorted(nodes)]


def labels_of() -> dict[str, dict[str, str]]:
    return {node["NodeID"]: node["Labels"] for node in shoal.nodes()}


def racks(group: PlacementGroup) -> set[str]:
    labels = labels_of()
    return {labels[node]["rack"] for node in placed(group)}


def inside(group: PlacementGroup, index: int = -1) -> PlacementGroupSchedulingStrategy:
    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)


def test_pack_uses_few_nodes():
    assert len(set(placed(placement_group([{"CPU": 1}] * 2, strategy="PACK")))) == 1


def test_pack_may_use_several_nodes():
    assert len(set(placed(placement_group([{"CPU": 2}] * 3, strategy="PACK")))) == 3


def test_spread_uses_many_nodes_and_doubles_up_only_when_it_must():
    assert len(set(placed(placement_group([{"CPU": 1}] * 6, strategy="SPREAD")))) == 6
    assert len(set(placed(placement_group([{"CPU": 0.5}] * 9, strategy="SPREAD")))) == 6


def test_strict_pack_uses_one_node():
    assert len(set(placed(placement_group([{"CPU": 1}] * 2, strategy="STRICT_PACK")))) == 1


def test_strict_pack_that_fits_no_node_is_pending_as_infeasible():
    group = placement_group([{"CPU": 1}] * 3, strategy="STRICT_PACK")
    until(lambda: placement_group_table(group).get("reason") == "infeasible", "the reason is known")
    with pytest.raises(GetTimeoutError) as caught:
        shoal.get(group.ready(), timeout=0.1)
    assert caught.value.reason
    assert not group.wait(0.1)


def test_strict_spread_uses_a_node_a_bundle():
    assert len(set(placed(placement_group([{"CPU": 0.1}] * 6, strategy="STRICT_SPREAD")))) == 6


def test_strict_spread_over_more_bundles_than_nodes_is_infeasible():
    group = placement_group([{"slot": 0.01}] * 7, strategy="STRICT_SPREAD")
    until(lambda: placement_group_table(group).get("reason") == "infeasible", "the reason is known")


def test_label_selectors_choose_the_nodes():
    group = placement_group(
        [{"CPU": 1}] * 3,
        bundle_label_selector=[
            {"rack": "r1", "number": "0"},
            {"rack": "!r1", "number": "1"},
            {"number": "in(2,3)"},
        ],
    )
    labels = [labels_of()[node] for node in placed(group)]
    assert (labels[0]["rack"], labels[0]["number"]) == ("r1", "0")
    assert (labels[1]["rack"], labels[1]["number"]) == ("r2", "1")
    assert labels[2]["number"] == "2"


def test_topology_keeps_a_group_in_one_rack():
    first = placement_group([{"CPU": 2}] * 3, topology_strategy={"rack": "STRICT_PACK"})
    second = placement_group([{"CPU": 2}] * 3, topology_strategy={"rack": "STRICT_PACK"})
    assert len(racks(first)) == 1
    assert racks(first) | racks(second) == {"r1", "r2"}


def test_topology_and_node_strategy_together():
    group = placement_group(
        [{"slot": 1}] * 3, strategy="STRICT_SPREAD", topology_strategy={"rack": "STRICT_PACK"}
    )
    assert len(set(placed(group))) == 3
    assert len(racks(group)) == 1


def test_a_gang_larger_than_a_rack_never_spans_two():
    group = placement_group([{"CPU": 2}] * 4, topology_strategy={"rack": "STRICT_PACK"})
    assert not group.wait(0.2)
    assert everything_free()


def test_all_or_nothing():
    blocker = placement_group([{"CPU": 2}] * 4)
    placed(blocker)
    gang = placement_group([{"CPU": 2}] * 3)
    assert not gang.wait(0.1)
    assert shoal.available_resources()["CPU"] == 4
    remove_placement_group(blocker)
    placed(gang)


def test_two_gangs_that_want_everything_come_one_after_the_other():
    first = placement_group([{"slot": 1}] * 6)
    second = placement_group([{"slot": 1}] * 6)
    placed(first)
    assert not second.wait(0.1)
    remove_placement_group(first)
    placed(second)


def test_actors_run_on_the_node_of_their_bundle():
    group = placement_group([{"CPU": 1}] * 6, strategy="STRICT_SPREAD")
    actors = [
        Counter.options(num_cpus=1, scheduling_strategy=inside(group, index)).remote()
        for index in range(6)
    ]
    assert shoal.get([actor.node.remote() for actor in actors]) == placed(group)


def test_tasks_run_inside_their_group():
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")

    def node() -> tuple[str, str | None]:
        context = shoal.get_runtime_context()
        return context.get_node_id(), context.get_placement_group_id()

    task = shoal.remote(num_cpus=1)(node)
    anywhere = shoal.get(
        [task.options(scheduling_strategy=inside(group)).remote() for _ in range(20)]
    )
    assert {where for where, _ in anywhere} <= set(placed(group))
    assert {identity for _, identity in anywhere} == {group.id.hex()}
    second = task.options(scheduling_strategy=inside(group, 1)).remote()
    assert shoal.get(second)[0] == placed(group)[1]


def test_work_submitted_before_the_group_is_ready_waits_for_it():
    blocker = placement_group([{"slot": 1}] * 6)
    placed(blocker)
    group = placement_group([{"slot": 1}])
    answer = Counter.options(scheduling_strategy=inside(group, 0)).remote().add.remote()
    assert shoal.wait([answer], timeout=0.1) == ([], [answer])
    remove_placement_group(blocker)
    assert shoal.get(answer, timeout=20) == 1


def test_a_bundle_holds_no_more_than_it_has(gate):
    group = placement_group([{"CPU": 1}])

    def hold(path: str) -> str:
        pass_gate(path)
        return shoal.get_runtime_context().get_node_id()

    task = shoal.remote(num_cpus=1)(hold).options(scheduling_strategy=inside(group))
    closed, free = task.remote(gate.path), task.remote(gate.path)
    assert shoal.wait([closed, free], timeout=0.1) == ([], [closed, free])
    gate.open()
    assert set(shoal.get([closed, free])) == set(placed(group))


def test_a_thousand_serial_ready_questions():
    group = placement_group([{"CPU": 1}])
    for _ in range(1000):
        shoal.get(group.ready())


def test_ready_gives_the_group_and_works_with_wait_and_await():
    group = placement_group([{"CPU": 1}])
    ready = group.ready()
    assert shoal.wait([ready], timeout=20) == ([ready], [])
    assert shoal.get(ready) == group

    async def answer() -> PlacementGroup:
        return await group.ready()

    assert asyncio.run(answer()) == group
    assert group.wait(0)


def test_a_hundred_groups_at_once():
    groups = [placement_group([{"CPU": 0.01}]) for _ in range(100)]
    shoal.get([group.ready() for group in groups], timeout=20)
    for group in groups:
        remove_placement_group(group)


def test_removal_ends_what_runs_in_the_group_and_frees_it():
    group = placement_group([{"CPU": 1}] * 2)
    counter = Counter.options(
        name="in the group", max_restarts=-1, scheduling_strategy=inside(group)
    ).remote()
    pid = shoal.get(counter.pid.remote())
    remove_placement_group(group)
    until_gone(pid)
    with pytest.raises(ActorDiedError) as caught:
        shoal.get(counter.add.remote())
    assert caught.value.cause.name == "PLACEMENT_GROUP_REMOVED"
    with pytest.raises(ValueError):
        shoal.get_actor("in the group")


def test_removal_fails_waiting_questions_and_tasks():
    group = placement_group([{"CPU": 1}] * 7, strategy="STRICT_SPREAD")
    ready = group.ready()
    task = shoal.remote(lambda: 1).options(scheduling_strategy=inside(group)).remote()
    remove_placement_group(group)
    with pytest.raises(shoal.exceptions.RayError):
        shoal.get(ready, timeout=20)
    with pytest.raises(shoal.exceptions.TaskPlacementGroupRemoved):
        shoal.get(task, timeout=20)
    with pytest.raises(shoal.exceptions.RayError):
        shoal.get(group.ready(), timeout=20)
    remove_placement_group(group)
    assert placement_group_table(group)["state"] == "REMOVED"


def test_the_table_and_the_name():
    group = placement_group([{"CPU": 1}, {"slot": 1}], strategy="SPREAD", name="by name")
    placed(group)
    row = placement_group_table(group)
    assert row["name"] == "by name"
    assert row["state"] == "CREATED"
    assert row["strategy"] == "SPREAD"
    assert row["bundles"] == {0: {"CPU": 1.0}, 1: {"slot": 1.0}}
    assert get_placement_group("by name") == group
    with pytest.raises(ValueError, match="nothing here"):
        get_placement_group("nothing here")


def test_group_resources_are_visible_under_their_names():
    group = placement_group([{"CPU": 1}])
    placed(group)
    name = f"CPU_group_{group.id.hex()}"
    assert until(lambda: shoal.cluster_resources().get(name), f"{name} is listed") == 1
    assert shoal.cluster_resources()[f"bundle_group_0_{group.id.hex()}"] == 1000


def test_what_is_free_in_a_group_is_visible_under_its_names():
    group = placement_group([{"CPU": 2}, {"CPU": 1}])
    placed(group)
    names = {key for key in shoal.cluster_resources() if group.id.hex() in key}

    def free() -> dict[str, float]:
        return {key: value for key, value in shoal.available_resources().items() if key in names}

    until(lambda: free() == {key: shoal.cluster_resources()[key] for key in names}, "all is free")
    first = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    counter = Counter.options(num_cpus=1, scheduling_strategy=first).remote()
    assert shoal.get(counter.add.remote()) == 1
    until(lambda: free().get(f"CPU_group_0_{group.id.hex()}") == 1, "one of two CPUs is used")
    assert free() == {
        f"CPU_group_{group.id.hex()}": 2,
        f"CPU_group_0_{group.id.hex()}": 1,
        f"CPU_group_1_{group.id.hex()}": 1,
        f"bundle_group_{group.id.hex()}": 1999.999,
        f"bundle_group_0_{group.id.hex()}": 999.999,
        f"bundle_group_1_{group.id.hex()}": 1000,
    }
    remove_placement_group(group)
    until(lambda: not any(group.id.hex() in key for key in shoal.available_resources()), "gone")


def test_a_detached_group_survives_its_driver_and_others_do_not(two_racks):
    from tests.cluster.drivers import run_driver

    done = run_driver(
        """
        import shoal
        shoal.init(namespace="tests", log_to_driver=False)
        from shoal.util.placement_group import placement_group
        kept = placement_group([{"CPU": 1}], name="kept", lifetime="detached")
        lost = placement_group([{"CPU": 1}], name="lost")
        shoal.get([kept.ready(), lost.ready()])
        print(kept.id.hex(), lost.id.hex())
        """,
        two_racks.address,
    )
    assert done.returncode == 0, done.stderr
    kept, lost = done.stdout.split()
    until(
        lambda: placement_group_table().get(lost, {"state": "REMOVED"})["state"] == "REMOVED",
        "the group of the driver that ended is removed",
    )
    assert placement_group_table()[kept]["state"] == "CREATED"
