"""`explain`, `would_fit` and changes: one reason, and per bundle counts that add up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from shoal.exceptions import GetTimeoutError
from shoal.util.placement_group import (
    PlacementGroup,
    explain,
    placement_group,
    remove_placement_group,
    would_fit,
)
from tests.cluster.conftest import everything_free
from tests.cluster.waiting import until

NODES = 7


@pytest.fixture
def groups(two_racks):
    """Makes groups that are gone after the test."""
    made: list[PlacementGroup] = []

    def make(*args: object, **options: object) -> PlacementGroup:
        made.append(placement_group(*args, **options))
        return made[-1]

    yield make
    for group in made:
        remove_placement_group(group)
    until(everything_free, "all resources of removed groups are free")


def checked(why: object) -> object:
    """The same explanation; its counts must add up to the nodes alive."""
    for bundle in why.bundles:
        assert bundle.fitting_nodes + sum(bundle.rejected.values()) == NODES, bundle
    assert why.message
    return why


def settled(group: PlacementGroup, reason: str) -> object:
    until(lambda: explain(group).reason == reason, f"the reason is {reason}")
    return checked(explain(group))


def test_a_placed_group_says_where(groups):
    group = groups([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    shoal.get(group.ready())
    why = explain(group)
    assert (why.state, why.fits) == ("CREATED", True)
    assert len({bundle.placed_on for bundle in why.bundles}) == 2


def test_too_large_for_every_node(groups):
    why = settled(groups([{"CPU": 64}]), "infeasible")
    assert why.bundles[0].rejected == {"shape_too_large": NODES}
    assert not why.fits


def test_labels_nobody_has(groups):
    why = settled(groups([{"CPU": 1}], bundle_label_selector=[{"rack": "r9"}]), "infeasible")
    assert why.bundles[0].rejected["label_mismatch"] >= 6


def test_room_taken_by_another_group_names_it(groups):
    blocker = groups([{"slot": 1}] * 6)
    shoal.get(blocker.ready())
    waiting = groups([{"slot": 1}])
    why = settled(waiting, "insufficient_free")
    assert why.bundles[0].rejected["insufficient_free"] == 6
    assert blocker.id.hex() in why.blocked_by
    with pytest.raises(GetTimeoutError, match="slot") as caught:
        shoal.get(waiting.ready(), timeout=0.05)
    assert caught.value.reason == "insufficient_free"
    assert str(caught.value).endswith(why.message)
    assert str(caught.value).count("insufficient_free:") == 1


def test_a_rack_too_small_says_how_much_it_lacks(groups):
    group = groups(
        [{"slot": 1}] * 4, strategy="STRICT_SPREAD", topology_strategy={"rack": "STRICT_PACK"}
    )
    until(lambda: explain(group).best_domain is not None, "a best rack is known")
    best = explain(group).best_domain
    assert (best.label, best.fitting, best.wanted) == ("rack", 3, 4)
    assert best.value in {"r1", "r2"}


def test_a_full_rack_is_named_too(groups):
    blocker = groups([{"slot": 1}] * 6)
    shoal.get(blocker.ready())
    waiting = groups([{"slot": 1}] * 3, topology_strategy={"rack": "STRICT_PACK"})
    best = settled(waiting, "domain_incomplete").best_domain
    assert (best.fitting, best.wanted, best.lacks) == (0, 3, "room for 3 more x {slot: 1}")
    assert best.value in {"r1", "r2"}


def test_the_command_line_finds_a_group_by_its_name_and_says_the_same(groups, two_racks):
    def shell(*words: str) -> str:
        program = str(Path(sys.executable).with_name("shoal"))
        command = [program, *words, "--address", two_racks.address]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    group = groups(
        [{"slot": 1}] * 4,
        strategy="STRICT_SPREAD",
        topology_strategy={"rack": "STRICT_PACK"},
        name="wider than a rack",
    )
    why = settled(group, "infeasible")
    best = why.best_domain.value
    assert f"best rack is {best}: room for 3 of 4 bundles" in why.message
    assert why.blocked_by == ()
    assert f"of {NODES} nodes alive 0 fit {{slot: 1}}" in why.message
    shown = shell("explain", "wider than a rack")
    assert why.message in shown
    assert f"best rack: {best}, 3 of 4 bundles fit; it lacks room for 1 more x {{slot: 1}}" in shown
    assert json.loads(shell("explain", group.id.hex(), "--json"))["message"] == why.message
    (row,) = json.loads(shell("status", "--json"))["pending_groups"]
    assert (row["name"], row["reason"]) == ("wider than a rack", "infeasible")
    assert f"infeasible: {row['message']}" == why.message


def test_a_dry_run_reserves_nothing():
    assert would_fit([{"CPU": 2}] * 6, "STRICT_SPREAD").fits
    assert not would_fit([{"CPU": 2}] * 7, "STRICT_SPREAD").fits
    assert not would_fit([{"slot": 1}] * 4, topology_strategy={"rack": "STRICT_PACK"}).fits
    assert everything_free()


def test_changes_are_told_as_they_happen(groups):
    blocker = groups([{"slot": 1}] * 6)
    shoal.get(blocker.ready())
    waiting = groups([{"slot": 1}])
    states: list[str] = []
    waiting.on_change(lambda change: states.append(change.state))
    remove_placement_group(blocker)
    until(lambda: "CREATED" in states, "the callback heard of the placement")
    remove_placement_group(waiting)
    until(lambda: "REMOVED" in states, "the callback heard of the removal")
