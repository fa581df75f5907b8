"""Snapshots come a minute late, gangs all the time: reservations alone keep the books right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_simulator.owner.gang import GangPlan
from cluster_simulator.scenario import Scenario

if TYPE_CHECKING:
    from cluster_simulator.world import World

_GANGS = 12
_EVERY_US = 1_000_000


def _begin(world: World) -> None:
    owner = world.start_owner()
    for number in range(_GANGS):
        plan = GangPlan(
            bundles=world.dice.randint(1, 4),
            cpus=world.dice.randint(1, 2),
            strategy=pg.PLACEMENT_STRATEGY_PACK,
        )
        owner.later(number * _EVERY_US, owner.launch, plan)


SCENARIO = Scenario(
    name="late_sync",
    summary="resource snapshots are held back for a minute while gangs are launched",
    begin=_begin,
    snapshot_delay_ms=60_000,
    busy_ms=20_000,
    calm_ms=150_000,
    exact_ledger=True,
)
