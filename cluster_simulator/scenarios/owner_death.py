"""Drivers die in the middle of everything, with and without their home agents; new ones start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_simulator.nemesis import Faults
from cluster_simulator.scenario import Scenario
from cluster_simulator.scenarios.storm import random_plan

if TYPE_CHECKING:
    from cluster_simulator.world import World

_OWNERS = 8
_WORK_US = 12_000_000


def _begin(world: World) -> None:
    for number in range(_OWNERS):
        world.heap.after(number * _WORK_US // _OWNERS, _owner, world)


def _owner(world: World) -> None:
    if world.some_agent() is None:
        return
    owner = world.start_owner()
    dice = world.dice
    for _ in range(dice.randint(1, 4)):
        owner.later(dice.randrange(500_000), owner.launch, random_plan(dice))
    if dice.random() < 0.3:
        owner.later(dice.randrange(3_000_000), owner.leave)


SCENARIO = Scenario(
    name="owner_death",
    summary="drivers die, with and without their home agents, and new ones start",
    begin=_begin,
    exact_ledger=True,
    faults=Faults(
        owner_crash_ms=1_200, agent_crash_ms=4_000, gcs_crash_ms=6_000, partition_ms=6_000
    ),
)
