"""Gangs come and go for as long as the scenario lasts, on a cluster that is nearly full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_simulator.nemesis import Faults
from cluster_simulator.owner.gang import GangPlan
from cluster_simulator.owner.owner_process import OwnerProcess
from cluster_simulator.scenario import Scenario

if TYPE_CHECKING:
    from cluster_simulator.world import World

_OWNERS = 2
_WORK_US = 12_000_000
_STRATEGIES = (pg.PLACEMENT_STRATEGY_SPREAD, pg.PLACEMENT_STRATEGY_STRICT_SPREAD)


def _begin(world: World) -> None:
    end_us = world.heap.now_us + _WORK_US
    for _ in range(_OWNERS):
        owner = world.start_owner()
        for _ in range(max(2, len(world.machines) // 3)):
            owner.later(world.dice.randrange(1_000_000), _again, owner, end_us)


def _again(owner: OwnerProcess, end_us: int) -> None:
    """One gang after another in this place."""
    if owner.heap.now_us >= end_us:
        return
    dice = owner.world.dice
    lives_us = dice.choice([50_000, 400_000, 2_000_000])
    plan = GangPlan(
        bundles=dice.randint(1, 4),
        cpus=dice.randint(1, 3),
        actors_per_bundle=dice.choice([0, 1]),
        strategy=dice.choice(_STRATEGIES),
        lives_us=lives_us,
    )
    owner.launch(plan)
    owner.later(lives_us + dice.randrange(300_000), _again, owner, end_us)


SCENARIO = Scenario(
    name="churn",
    summary="gangs come and go on a nearly full cluster, connections break",
    begin=_begin,
    exact_ledger=True,
    faults=Faults(link_break_ms=800, slow_ms=2_000, gcs_crash_ms=8_000, slow_disk_ms=3_000),
)
