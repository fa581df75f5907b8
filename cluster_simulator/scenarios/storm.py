"""Gangs come and go on a small cluster while everything that can fail does."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_simulator.nemesis import Faults
from cluster_simulator.owner.gang import GangPlan
from cluster_simulator.scenario import Scenario

if TYPE_CHECKING:
    from cluster_simulator.world import World

_OWNERS = 3
_STRATEGIES = (
    pg.PLACEMENT_STRATEGY_PACK,
    pg.PLACEMENT_STRATEGY_SPREAD,
    pg.PLACEMENT_STRATEGY_STRICT_PACK,
    pg.PLACEMENT_STRATEGY_STRICT_SPREAD,
)
_LOSSES = (pg.ON_LOSS_REPLACE, pg.ON_LOSS_RESTART, pg.ON_LOSS_WAIT)


def random_plan(dice: Random) -> GangPlan:
    """A gang of any kind that small nodes can hold."""
    strategy = dice.choice(_STRATEGIES)
    bundles = dice.randint(1, 2 if strategy == pg.PLACEMENT_STRATEGY_STRICT_PACK else 5)
    return GangPlan(
        bundles=bundles,
        cpus=dice.choice([1, 1, 2]),
        actors_per_bundle=dice.choice([0, 1, 1, 2]),
        strategy=strategy,
        rack=dice.choice([pg.PLACEMENT_STRATEGY_UNSPECIFIED, pg.PLACEMENT_STRATEGY_STRICT_PACK]),
        on_loss=dice.choice(_LOSSES),
        lives_us=dice.choice([0, 500_000, 3_000_000]),
    )


def _begin(world: World) -> None:
    for _ in range(_OWNERS):
        _owner(world)


def _owner(world: World) -> None:
    owner = world.start_owner()
    dice = world.dice
    for _ in range(dice.randint(4, 10)):
        owner.later(dice.randrange(8_000_000), owner.launch, random_plan(dice))


SCENARIO = Scenario(
    name="storm",
    summary="small gangs, every fault there is",
    begin=_begin,
    exact_ledger=True,
    faults=Faults(
        gcs_crash_ms=2_500,
        agent_crash_ms=3_000,
        worker_crash_ms=3_000,
        owner_crash_ms=9_000,
        link_break_ms=600,
        partition_ms=3_000,
        slow_ms=2_500,
        slow_disk_ms=6_000,
        drain_ms=6_000,
    ),
)
